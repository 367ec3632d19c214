// The second version of the example, which says something else.

export function describe() {
  return {
    name: "analyzeText",
    version: "2.0.0",
    title: "Analyze a text",
    description: "Counts the words of a text.",
    inputSchema: JSON.stringify({ type: "object", properties: { text: { type: "string" } }, required: ["text"] }),
    outputSchema: undefined,
    hosts: [],
    secrets: [],
  };
}

export function run() {
  return JSON.stringify({ edition: 2 });
}
