/**
 * Maps most mutants of `mutants.test.ts` (stores that are each broken in one way) to the title of a law that is known to detect the mutant.
 * To save time, this law is tried first. All laws are tried if a mutant is not named here, or passes its law.
 */
export const killers: Readonly<Record<string, string>> = {
  "scopes are compared as ids joined to a path":
    "a `userId` or `agentId` that contains slashes is one id; its scope is never confused with a scope of several ids",
  "`put` cuts every body to 65,536 characters":
    "`put` and `update` allow at most 1,048,576 characters in a body if the record's origin is `file`, and at most 65,536 otherwise",
  "`get` skips the viewer check":
    "a viewer sees the scopes whose ids are all its own (reach `exact`), or the scopes that contain all its ids (reach `within`)",
  "`list` skips the viewer check":
    "records that are expired, invisible or no longer valid do not count towards the limit of `list` and `search`",
  "`search` has no viewer check":
    "records that are expired, invisible or no longer valid do not count towards the limit of `list` and `search`",
  "`stream` skips the viewer check": "`stream` returns the records of all pages of `list`, in the same order",
  "`history` skips the viewer check":
    "`history` starts with the current record, and is empty for an unknown id and for a record that the viewer does not see",
  "`forget` skips the viewer check":
    "a call with the id of a record invisible to the viewer answers as for an unknown id, except that `put` fails with `invalid_id`",
  "`update` skips the viewer check":
    "a call with the id of a record invisible to the viewer answers as for an unknown id, except that `put` fails with `invalid_id`",
  "`put` skips the viewer check": "`put` into a scope that the viewer does not see fails with `invalid_scope`",
  "`touch` and `uses` skip the viewer check":
    "a call with the id of a record invisible to the viewer answers as for an unknown id, except that `put` fails with `invalid_id`",
  "uses of a record before a move to another scope are not counted":
    "a record keeps its use count if a put moves the record to another scope",
  "`whyNot` skips the viewer check":
    "a call with the id of a record invisible to the viewer answers as for an unknown id, except that `put` fails with `invalid_id`",
  "`links` skips the viewer check":
    "`links` omits targets that are invisible, expired or not valid now; a [[wikilink]] then resolves to another record of the same name",
  "a [[wikilink]] resolves to a record that the viewer does not see":
    "`links` omits targets that are invisible, expired or not valid now; a [[wikilink]] then resolves to another record of the same name",
  "`links` returns its first answer forever":
    "a [[wikilink]] resolves to a record by id, else by summary, ignoring case, spacing, Unicode form and a folder prefix",
  "`links` omits [[wikilinks]] at the record to which they lead":
    "`links` returns in `to` the targets of a record's links and [[wikilinks]], and in `from` the records that link to the record",
  "`changes` skips the viewer check":
    "the `changes` stream of a viewer emits the writes of exactly those records that the viewer sees",
  "`get` ignores the tenant":
    "a viewer sees the scopes whose ids are all its own (reach `exact`), or the scopes that contain all its ids (reach `within`)",
  "`search` applies the limit before the filter":
    "`list` and `search` with `asOf` return the records valid at that time; a record is valid from `validAt` until just before `invalidAt`",
  "`search` applies the limit before the viewer check":
    "records that are expired, invisible or no longer valid do not count towards the limit of `list` and `search`",
  "scores depend on records that the viewer does not see":
    "`search` and `whyNot` answer as in a store without the records that the viewer does not see",
  "`leftOut` is always 0": "`search` without a text returns the most recent records first, as `list` does",
  "search by vector applies the limit before the viewer check":
    "records excluded by viewer, filter or time do not use up the limit of a search by vector",
  "search by vector applies the limit before the filter":
    "a hybrid search finds records by word and by vector, and by word alone while no record has a vector",
  "vectors of all models are stored as those of one model":
    "vectors.pending returns each live text of a tenant once if the text has no vector of the model; an edited text counts as new",
  "an updated record keeps the vector of its old text":
    "vectors.pending returns each live text of a tenant once if the text has no vector of the model; an edited text counts as new",
  "purge leaves the vector behind":
    "a search does not find an updated or forgotten record by its old vector, and a purge deletes the vector",
  "the field `awaiting` of a search result counts records that the viewer does not see":
    "near-duplicates of the first hit do not use up the limit; `awaiting` counts visible records that pass the filter but lack a vector",
  "the field `awaiting` of a search result is always 0":
    "a search by vector orders hits by cosine, and counts in `awaiting` the records that have no vector of the model",
  "hybrid search ignores vectors":
    "a hybrid search finds records by word and by vector, and by word alone while no record has a vector",
  "hybrid search requires a match by word and by vector":
    "a hybrid search finds records by word and by vector, and by word alone while no record has a vector",
  "vectors.attach is not atomic":
    "`attach` and `search` refuse vectors that are empty, not finite or of other dimensions than the model, and `attach` then stores none",
  "vectors.attach ignores invalid vectors instead of failing":
    "`attach` and `search` refuse vectors that are empty, not finite or of other dimensions than the model, and `attach` then stores none",
  "vectors.pending returns every text twice":
    "vectors.pending returns each live text of a tenant once if the text has no vector of the model; an edited text counts as new",
  "vectors.read returns the stored array instead of a copy":
    "`attach` does not replace a text's vector; a model whose vectors are all purged accepts vectors of another number of dimensions",
  "a turn's score depends on neighbouring turns that the viewer does not see":
    "expired and invisible conversation turns do not change the scores of the turns next to them",
  "a turn's score depends on expired neighbouring turns":
    "expired and invisible conversation turns do not change the scores of the turns next to them",
  "a turn's score does not depend on neighbouring turns":
    "a search that finds a conversation turn also returns both turns next to it, above similar texts, and no turn three places away",
  "the speaker of a turn is not stored":
    "`search` ranks the records of a speaker first if the query names the speaker, even if only by first name, without accents or misspelt",
  "`search` ignores words in the first person":
    "`search` ranks the viewer's own words above similar words of other speakers if the query is in the first person (my)",
  "`search` ignores times in the text of the query":
    "`search` ranks records whose `validAt` is in the time that the query names (in June, yesterday) above equally matching records",
  "`search` splits identifiers at punctuation":
    "`search` for an identifier (8.104.8, C++, user_id, .env), even of a single letter (R), ranks a record with the whole identifier first",
  "`search` folds records of equal body whatever their kind":
    "`search` returns one of several near-duplicates of equal kind and data, and counts the rest in `leftOut`; `fold: false` returns all",
  "`leftOut.folded` is always 0":
    "`search` returns one of several near-duplicates of equal kind and data, and counts the rest in `leftOut`; `fold: false` returns all",
  "`list` folds near-duplicates": "drafts that differ in scope, kind, letter case, summary or data are not duplicates",
  "near-duplicates of the nearest record use up the limit of a search by vector":
    "near-duplicates of the first hit do not use up the limit; `awaiting` counts visible records that pass the filter but lack a vector",
  "`search` never reports that the search by words or by vector failed":
    "a hybrid search without a query vector, or in a store without vector search, searches by words and lists an error",
  "`put` does not deduplicate":
    "a put of a duplicate writes nothing, and returns the existing record with the outcome `duplicate`",
  "`put` returns the outcome `created` for a duplicate":
    "a put of a duplicate writes nothing, and returns the existing record with the outcome `duplicate`",
  "`put` deduplicates against records that the viewer does not see":
    "a draft equal to another user's record is not treated as a duplicate, and creates a record",
  "generated ids are not in ascending order":
    "generated ids are ULIDs in strictly ascending order, also within one millisecond",
  "a record's revision never increases":
    "`put` with the id of a record replaces the whole record, except `createdAt` and, if the draft omits it, `validAt`",
  "purge leaves the history behind":
    "the viewer `System` can still read a forgotten record with `get` and `history`, but not a purged one",
  "`forget` erases the record instead of leaving a tombstone":
    "users cannot put, purge or restore a forgotten record of origin `instructions` by writes of other origins; `System` can put or purge it",
  "only the newest revision is kept":
    "restoring a revision whose `expiresAt` is past fails with `invalid_draft` and changes nothing",
  "`createdAt` is rounded down to whole seconds":
    "changing a draft after `put`, or changing a returned record, does not change the stored record",
  "bodies are trimmed": "`put` stores every field of the draft, and `get` returns the same record",
  "`apply` is not atomic": "a batch with one refused mutation, at any position, fails and writes nothing",
  "`ifRevision` is ignored":
    "every write with an outdated `ifRevision` changes nothing and fails with a `conflict` that has the expected and the actual revision",
  "`update` removes fields that the patch does not name":
    "`update` changes only the fields of the patch: `undefined` leaves a field as it is, `null` removes it",
  "`update` checks `ifRevision` in one step and writes in another":
    "concurrent updates of a record are all applied if each reads it again and retries after a `conflict`, or if each omits `ifRevision`",
  "`get` returns expired records":
    "every read and write by a user, even a read with an earlier `asOf`, treats a record as absent once its `expiresAt` is reached",
  "`list` with `asOf` returns expired records":
    "every read and write by a user, even a read with an earlier `asOf`, treats a record as absent once its `expiresAt` is reached",
  "`list` returns records whose `invalidAt` is past":
    "one batch can put a new fact and set `invalidAt` of the old one; `list` returns the new one, and with an earlier `asOf` the old one",
  "`search` ignores `asOf`":
    "`list` and `search` with `asOf` return the records valid at that time; a record is valid from `validAt` until just before `invalidAt`",
  "a cursor is an offset":
    "`list` refuses a cursor of another viewer or another filter, and a string that is no cursor",
  "`list` returns one record more than the limit":
    "`list` returns 20 records by default, and a cursor only if more records follow",
  "`compact` erases records whose `invalidAt` is past":
    "`compact` erases all expired records, even forgotten ones, returns their number, and keeps records that are neither expired nor forgotten",
  "the list of forgotten records skips the viewer check":
    "`list` with `forgotten: true` respects the viewer, the tenant and every clause of the filter",
  "`list` ignores `forgotten`":
    "`list` with `forgotten: true` returns the forgotten records, last forgotten first; no other list or search returns them",
  "`stream` ignores `forgotten`":
    "`list` and `stream` return all pages of forgotten records; a cursor of such a page is refused with other clauses or another viewer",
  "`search` accepts `forgotten` instead of refusing it":
    "`list`, `search`, `whyNot` and `history` refuse an invalid filter, query or limit",
  "`list` treats `forgotten: false` as `true`":
    "`list` with `forgotten: true` returns the forgotten records, last forgotten first; no other list or search returns them",
  "the list of forgotten records is ordered by `createdAt`":
    "`list` with `forgotten: true` returns the forgotten records, last forgotten first; no other list or search returns them",
  "the list of forgotten records returns no cursor":
    "`list` and `stream` return all pages of forgotten records; a cursor of such a page is refused with other clauses or another viewer",
  "the list of forgotten records omits records whose `invalidAt` is past":
    "every record that `list` returns as forgotten can be restored with the content that it last had",
  "the list of forgotten records has expired records":
    "`list` with `forgotten: true` omits purged, re-created and expired records; for the viewer `System` it includes the expired ones",
  "the list of forgotten records has instructions":
    "only the viewer `System` can list the forgotten records of origin `instructions` and those of scope `Internal`",
  "a tombstone's `updatedAt` is not the time of the forget":
    "`list` with `forgotten: true` returns the forgotten records, last forgotten first; no other list or search returns them",
  "a write drops earlier tombstones from the history":
    "a `Restore` of a tombstone's revision brings back the content that the record had before it was forgotten",
  "`history` of a restored record omits the revisions before it was forgotten":
    "`history` of a restored record contains its tombstone and all revisions back to the latest put that created it",
  "`compact` erases forgotten records at once":
    "`compact` erases a forgotten, unexpired record once the store's `trash` duration has passed since the forget, and not before",
  "`compact` never erases forgotten records":
    "`compact` erases a forgotten, unexpired record once the store's `trash` duration has passed since the forget, and not before",
  "`put` takes origin and trust from the draft": "`put` reads origin and trust from its options, never from the draft",
  "`forget` removes instructions for any caller":
    "a record of origin `instructions` is changed only by `System` or by a write of that origin; other writes fail with `read_only`",
  "`put` takes over the id of forgotten instructions":
    "users cannot put, purge or restore a forgotten record of origin `instructions` by writes of other origins; `System` can put or purge it",
  "`list` clamps an invalid limit instead of refusing it":
    "`list`, `search`, `whyNot` and `history` refuse an invalid filter, query or limit",
  "`get` and `put` return the stored object instead of a copy":
    "changing a draft after `put`, or changing a returned record, does not change the stored record"
}
