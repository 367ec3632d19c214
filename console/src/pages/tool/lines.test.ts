import { expect, test } from 'vitest'
import { commandLine, curlLine, quoted } from './lines'

test.each([
  ['plain', 'plain'],
  ['two words', "'two words'"],
  ["it's", `'it'\\''s'`],
  ['$(rm -rf /)', "'$(rm -rf /)'"],
  ['', "''"],
])('the shell reads %s as one word', (text, word) => {
  expect(quoted(text)).toBe(word)
})

test('fields where they are plain, JSON where not', () => {
  expect(commandLine('wait', { seconds: 1 })).toBe('toolgate call wait seconds=1')
  expect(commandLine('echo', { text: 'a b' })).toBe("toolgate call echo 'text=a b'")
  expect(commandLine('echo', { text: '@x' })).toBe(`toolgate call echo --input '{"text":"@x"}'`)
  expect(commandLine('x', { list: [1] })).toBe(`toolgate call x --input '{"list":[1]}'`)
})

test('curl sends the whole body', () => {
  expect(curlLine('http://h', 'echo', { text: "it's" })).toContain(`-d '{"tool":"echo","input":{"text":"it'\\''s"}}'`)
})
