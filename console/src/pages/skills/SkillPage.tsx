// One skill: what it asks for, its text, and which texts it had before.
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { ApiError } from '../../api/errors'
import { useNames } from '../../app/names'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { CopyButton } from '../../ui/CopyLine'
import { Empty } from '../../ui/Empty'
import { Fact, Facts } from '../../ui/Facts'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { Section } from '../../ui/Section'
import { SkeletonRows } from '../../ui/Skeleton'
import { Time } from '../../ui/Time'
import { type Shown, skillQuery } from './queries'
import css from './skills.module.css'

export function SkillPage() {
  const { name } = useParams({ from: '/shell/skills/$name' })
  const skill = useQuery(skillQuery(name))
  if (skill.isPending) {
    return (
      <Page title={name} mono>
        <SkeletonRows />
      </Page>
    )
  }
  if (skill.isError && !skill.data) {
    const isGone = skill.error instanceof ApiError && skill.error.status === 404
    return (
      <Page title={name} mono>
        {isGone ? (
          <Empty title="There is no such skill" command="toolgate skill list">
            <Link {...to.skills()}>All skills</Link>
          </Empty>
        ) : (
          <Body narrow>
            <Problem error={skill.error} retry={() => void skill.refetch()} />
          </Body>
        )}
      </Page>
    )
  }
  return <ShownSkill skill={skill.data} />
}

function ShownSkill({ skill }: { skill: Shown }) {
  const nameOf = useNames()
  return (
    <Page title={skill.name} mono>
      <div className={css.parts}>
        <Section title="What it teaches">
          <p>{revealed(skill.description)}</p>
          {skill.arguments && skill.arguments.length > 0 && (
            <Facts>
              {skill.arguments.map(({ name, title, description, required, values }) => (
                <Fact key={name} name={<code>{revealed(name)}</code>}>
                  {revealed(description ?? title ?? 'a text')}
                  {required && <span className={css.quiet}> required</span>}
                  {values && values.length > 0 && (
                    <span className={css.quiet}> one of {revealed(values.join(', '))}</span>
                  )}
                </Fact>
              ))}
            </Facts>
          )}
        </Section>
        <Section title="Text" note="The whole file, as models and people are given it.">
          <div className={css.file}>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it */}
            <pre tabIndex={0}>{revealed(skill.source)}</pre>
            <CopyButton text={skill.source} what="the file" />
          </div>
        </Section>
        <Section title="Versions">
          <ul className={css.versions}>
            {skill.versions.map(({ digest, saved_by, saved_at }) => (
              <li key={digest} aria-current={digest === skill.digest || undefined}>
                <code title={digest}>{digest.slice(0, 12)}</code>
                <span className={css.quiet}>
                  <Time at={saved_at} /> by {revealed(nameOf(saved_by))}
                  {digest === skill.digest && ', the one in use'}
                </span>
              </li>
            ))}
          </ul>
        </Section>
      </div>
    </Page>
  )
}
