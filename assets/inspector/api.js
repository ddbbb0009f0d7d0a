/** Calls of the API. The token, where one is needed, is kept for this tab alone and sent as a header. */

const key = "effect-memory-token"

/** A failure that the server answered with. */
export class Failure extends Error {
  constructor(status, { detail, message, reason }) {
    super(message)
    this.status = status
    this.reason = reason
    this.detail = detail
  }
}

/** Keeps a token until the tab is closed. */
export const keepToken = (token) => sessionStorage.setItem(key, token)
/** Forgets the token. */
export const dropToken = () => sessionStorage.removeItem(key)

const call = async (method, path, body) => {
  const token = sessionStorage.getItem(key)
  const response = await fetch(`/api/${path}`, {
    method,
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
    headers: {
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(token !== null && { authorization: `Bearer ${token}` })
    },
    ...(body !== undefined && { body: JSON.stringify(body) })
  }).catch(() => {
    throw new Failure(0, { reason: "unavailable", message: "the server does not answer" })
  })
  const answer = await response.json().catch(() => ({}))
  if (!response.ok) {
    throw new Failure(response.status, answer.error ?? { message: `the server answered ${response.status}` })
  }
  return answer
}

/** Reads something. */
export const get = (path) => call("GET", path)
/** Asks or changes something. */
export const post = (path, body) => call("POST", path, body)
