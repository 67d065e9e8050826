// Package input reads the work items of a map: from a JSON, JSONL, CSV or text
// file, from a command's output, or from a list in the workflow.
//
// Items are a stream. What has to be held for each item of a list (its id, its
// place, its sort keys) takes a few dozen bytes; the items themselves pass
// through, and wait in a temporary file where the list is sorted.
//
// The stages, in order: JSONPath (RFC 9535), filter, sort_by, distinct,
// offset, max_items.
package input
