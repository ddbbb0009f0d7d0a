/** Limits that every store keeps. */

/** How many revisions of a record are kept, the current one among them. */
export const revisionsKept = 20
