// Skills: texts that teach models a way of working.
import { queryOptions } from '@tanstack/react-query'
import { api, type Schemas, taken } from '../../api/client'

export type SkillRow = Schemas['SkillView']
export type Shown = Schemas['ShownSkill']

const LISTED_MAX = 500

export const skillsQuery = () =>
  queryOptions({
    queryKey: ['skills', 'list'],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/skills', { params: { query: { limit: LISTED_MAX } }, signal })),
  })

export const skillQuery = (skill: string) =>
  queryOptions({
    queryKey: ['skills', 'one', skill],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/skills/{skill}', { params: { path: { skill } }, signal })),
    placeholderData: () => undefined,
  })
