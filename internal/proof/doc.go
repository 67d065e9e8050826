// Package proof says what the items of a run have shown before their work was merged, and
// holds the record against the repository and the files that the checks have printed.
//
// [Read] takes it from a journal alone. [Verify] computes anew what can be: that the trees
// that were checked are those of the commits on record, that what the checks printed has
// the digest on record, that the merge of an item names its evidence, merges what was
// checked and is in the history, and, with a merge queue, that the tree that landed is one
// that was verified.
package proof
