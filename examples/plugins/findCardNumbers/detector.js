// A detector for guardrails: numbers that could be those of payment cards.

const inputSchema = {
  type: "object",
  properties: { stage: { type: "string" }, tool: { type: "string" }, value: {}, config: {} },
  required: ["stage", "tool", "value"],
};

export function describe() {
  return {
    name: "findCardNumbers",
    version: "1.0.0",
    title: "Find card numbers",
    description: "Finds numbers of 13 to 19 digits that have the check digit of a payment card. For guardrails.",
    inputSchema: JSON.stringify(inputSchema),
    outputSchema: undefined,
    hosts: [],
    secrets: [],
  };
}

export function examine(text, direction) {
  const findings = [];
  const where = direction === "call" ? "the arguments" : "the result";
  walk(JSON.parse(text), "", (value, path) => {
    if (holdsCardNumber(String(value))) {
      findings.push({ reason: `a card number in ${where}`, path });
    }
  });
  return findings;
}

function walk(value, path, visit) {
  if (value !== null && typeof value === "object") {
    for (const [key, inner] of Object.entries(value)) {
      walk(inner, `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`, visit);
    }
  } else {
    visit(value, path);
  }
}

function holdsCardNumber(text) {
  const candidates = text.match(/\d(?:[ -]?\d){12,18}/g) ?? [];
  return candidates.some((candidate) => hasCheckDigit(candidate.replace(/\D/g, "")));
}

function hasCheckDigit(digits) {
  let sum = 0;
  for (let place = 0; place < digits.length; place++) {
    let digit = Number(digits[digits.length - 1 - place]);
    if (place % 2 === 1) {
      digit *= 2;
      if (digit > 9) digit -= 9;
    }
    sum += digit;
  }
  return sum % 10 === 0;
}
