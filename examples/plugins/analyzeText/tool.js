// A tool that reaches nothing: text in, numbers out.

import { log } from "toolgate:plugin/host@1.0.0";

const WORDS_PER_MINUTE = 200;

const inputSchema = {
  type: "object",
  properties: { text: { type: "string", description: "the text, as it is", maxLength: 200000 } },
  required: ["text"],
  additionalProperties: false,
};

const outputSchema = {
  type: "object",
  properties: {
    words: { type: "integer", description: "how many words, such as 5" },
    sentences: { type: "integer", description: "how many sentences, at least 1" },
    longest_word: { type: "string", description: "the first of the longest words" },
    minutes: { type: "number", description: "minutes to read it, such as 0.1" },
  },
  required: ["words", "sentences", "longest_word", "minutes"],
};

export function describe() {
  return {
    name: "analyzeText",
    version: "1.0.0",
    title: "Analyze a text",
    description:
      "Counts the words and sentences of a text and says how long it takes to read. Use it when you have the text. Do not use it for a page of the web; fetch that first.",
    inputSchema: JSON.stringify(inputSchema),
    outputSchema: JSON.stringify(outputSchema),
    hosts: [],
    secrets: [],
  };
}

export function run(input, context) {
  const { text } = JSON.parse(input);
  const words = text.split(/[\s—–]+/).map((word) => word.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "")).filter(Boolean);
  if (words.length === 0) {
    throw {
      code: "validation-error",
      message: "`text` has no words; send one that has",
      pointer: "/text",
      retryAfterS: undefined,
    };
  }
  log(`measuring ${words.length} words`);
  return JSON.stringify({
    words: words.length,
    sentences: Math.max(1, (text.match(/[.!?…]+(\s|$)/g) ?? []).length),
    longest_word: words.reduce((longest, word) => (word.length > longest.length ? word : longest), ""),
    minutes: Math.ceil((words.length / WORDS_PER_MINUTE) * 10) / 10,
  });
}
