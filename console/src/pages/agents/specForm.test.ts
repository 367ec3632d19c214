import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, it } from 'vitest'
import { schemaOf } from '../../api/spec'
import { modelOf } from '../../form/model'
import { fieldsOf } from '../../form/shape'
import { agentForm } from './specForm'

const description = JSON.parse(readFileSync(resolve(import.meta.dirname, '../../../../docs/openapi.json'), 'utf8'))

it('asks for an agent as a person would tell of it, the rare things folded away', () => {
  const model = modelOf(agentForm(schemaOf(description, 'AgentSpec'), ['careful']))
  const fields = fieldsOf(model, model.root, {})
  const plain = fields.filter(({ advanced }) => !advanced).map(({ label }) => label)
  expect(plain).toEqual(['Name', 'Title', 'Description', 'Tools', 'Profile', 'Model'])
  expect(fields.at(-1)?.name).toBe('version')
  expect(fields).toHaveLength(Object.keys(description.components.schemas.AgentSpec.properties).length)
})
