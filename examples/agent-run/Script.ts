/** What the user says and what the agent does: a model would decide this. */
export interface Call {
  readonly tool: "remember" | "recall" | "forget"
  readonly input: object
}

export interface Turn {
  readonly user: string
  /** `last` is the id that the last call spoke of. */
  readonly calls: (last: string) => ReadonlyArray<Call>
  readonly reply: string
}

const remember = (scope: string, kind: string, summary: string, body: string, tags: ReadonlyArray<string>): Call => ({
  tool: "remember",
  input: { scope, kind, summary, body, tags }
})

const reviews = remember(
  "agent",
  "feedback",
  "Open pull requests before six.",
  "Open pull requests before six.\n\n**Why:** reviews are done in the evening; a late one waits a day.\n**How to apply:** run the checks by half past five.",
  ["review"]
)

const changes = remember(
  "agent",
  "project",
  "What a user notices goes into CHANGELOG.md.",
  "Every change that a user notices gets a line in CHANGELOG.md.\n\n**Why:** releases are cut from it.\n**How to apply:** in the same commit.",
  ["release"]
)

const staging = remember("run", "reference", "Staging is staging-2 this week.", "staging-2 stands in for staging.", [
  "servers"
])

export const turns: ReadonlyArray<Turn> = [
  {
    user: "I review in the evening: open pull requests before six. And note what users notice in CHANGELOG.md.",
    calls: () => [reviews, changes],
    reply: "The first is noted; the second has to wait for the next turn."
  },
  {
    user: "Then do it now. When do I want pull requests, by the way?",
    calls: () => [changes, { tool: "recall", input: { query: "when to open pull requests", kinds: ["feedback"] } }],
    reply: "Before six, since you review in the evening."
  },
  {
    user: "Staging is staging-2 this week.",
    calls: () => [staging],
    reply: "Noted, for this run."
  },
  {
    user: "No: staging-2 is gone. Forget it.",
    calls: (last) => [{ tool: "forget", input: { id: last } }],
    reply: "Forgotten."
  }
]
