package workflow

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// policySources are the maps in which the keys of the error policy may stand,
// the one that counts most first.
type policySources struct {
	d    *decoder
	maps []*object
}

// find gives the map that has a key, nil where none has; others that have it too are warned about.
func (s policySources) find(keys ...string) *object {
	var found *object
	for _, o := range s.maps {
		if o == nil || !o.has(keys...) {
			continue
		}
		if found == nil {
			found = o
			continue
		}
		for _, k := range keys {
			if o.has(k) {
				s.d.warnf(o.keyNode(k), "no-effect", "%q has no effect: it is written on line %d too, which counts", k, found.n.pos.Line).
					Suggest("keep one of the two")
				o.skip(k)
			}
		}
	}
	return found
}

func (d *decoder) errorPolicy(s policySources) {
	p := &d.file.Policy
	p.Pos = d.file.Pos
	if s.maps[0] != nil {
		p.Pos = s.maps[0].n.pos
	}
	for i := range errorPolicyTable.fields() {
		f := &errorPolicyTable.made[i]
		if f.as != "" {
			continue
		}
		if o := s.find(f.spellings...); o != nil {
			if key, n := o.spelled(f.spellings); n != nil {
				f.put(o, key, n, p)
			}
		}
	}
	var again itemRetries
	if m := s.maps[2]; m != nil {
		if mapTable.read(m, &again); again.val != nil {
			d.retryOnFailure(again.key.text, again.val, p)
		}
	}
	if p.OnItemFailure == "retry" && p.Retry == nil {
		p.Retry = d.resolve(&retrySpec{n: d.treeRoot})
	}
	d.checkHeld(s, p)
}

// retryOnFailure reads map.retry_on_failure: how often an item is tried again,
// or true for the default policy.
func (d *decoder) retryOnFailure(key string, n *node, p *ErrorPolicy) {
	if p.Retry != nil {
		d.warnf(n, "no-effect", "%s has no effect beside retry_config", key).Suggest("keep one of the two")
		return
	}
	spec := &retrySpec{n: n}
	n = d.resolved(n)
	if n.kind == boolNode {
		if isTrue(n) {
			p.Retry = d.resolve(spec)
		}
		return
	}
	if spec, again := spec.retries(d, n, key); again > 0 {
		p.Retry = d.resolve(spec)
	}
}

type itemRetries struct{ written }

var itemActions = []string{"dlq", "retry", "skip", "stop", "custom"}

// collections say when the errors of items are shown.
var collections = []string{"aggregate", "immediate", "batched"}

// customHandler is the name of a handler of items.
type customHandler struct{ n *node }

func (d *decoder) onItemFailure(key string, n *node, p *ErrorPolicy) {
	n = d.resolved(n)
	switch {
	case n.tag == "!custom" && n.scalar():
		d.custom(n, p)
		return
	case n.kind == mapNode:
		o, _ := d.object(n, customTable) // it is a map
		defer o.close()
		var h customHandler
		if customTable.read(o, &h); h.n != nil && h.n.scalar() {
			d.custom(h.n, p)
		} else {
			d.errorf(n, "bad-value", "on_item_failure written as a map is {custom: NAME}").Suggest("or write one of dlq, retry, skip, stop")
		}
		return
	case !n.scalar():
		d.wrong(n, key, "dlq, retry, skip, stop or {custom: NAME}").Suggest("for example: on_item_failure: dlq")
		return
	}
	word := snake(n.text)
	if name, ok := strings.CutPrefix(n.text, "custom:"); ok {
		named := *n
		named.text = strings.TrimSpace(name)
		d.custom(&named, p)
		return
	}
	switch {
	case word == "custom":
		d.errorf(n, "missing-key", "on_item_failure: custom needs the handler's name").Suggest("write on_item_failure: {custom: NAME} and handlers: {NAME: [steps]}")
	case slices.Contains(itemActions, word):
		p.OnItemFailure = word
	case d.file.Handlers[n.text] != nil:
		p.OnItemFailure, p.Handler = "custom", n.text
	default:
		prob := d.errorf(n, "bad-value", "on_item_failure cannot be %q", short(n.text))
		prob.Near(word, itemActions).Or("write one of dlq, retry, skip, stop or {custom: NAME} with NAME under handlers")
	}
}

func (d *decoder) custom(n *node, p *ErrorPolicy) {
	if d.file.Handlers[n.text] == nil {
		prob := d.errorf(n, "unknown-handler", "there is no handler %q under handlers", short(n.text))
		prob.Near(n.text, slices.Collect(maps.Keys(d.file.Handlers))).Or("add handlers: {%s: [steps]} at the top level", nameFrom(n.text))
		return
	}
	p.OnItemFailure, p.Handler = "custom", n.text
}

// collection reads when errors are shown, in every spelling: a word,
// batched:N, {batched: {size: N}}, {type: batched, size: N}, !batched {size: N}.
func (d *decoder) collection(key string, n *node, p *ErrorPolicy) {
	n = d.resolved(n)
	switch {
	case n.tag == "!batched":
		d.batch(strings.TrimPrefix(n.tag, "!"), n, p)
	case n.tag == "!aggregate" || n.tag == "!immediate":
		p.Collection = n.tag[1:]
	case n.kind == mapNode:
		o, _ := d.object(n, batchTable) // it is a map
		defer o.close()
		by := errorBatch{kind: "batched"}
		batchTable.read(o, &by)
		if p.Collection = by.kind; by.batched.val != nil {
			d.batch(by.batched.key.text, by.batched.val, p)
		} else if p.Collection == "batched" {
			d.batchSize(o, p)
		}
	case n.scalar():
		word, size, has := strings.Cut(snake(n.text), ":")
		switch {
		case (word == "aggregate" || word == "immediate") && !has:
			p.Collection = word
		case word == "batched":
			d.batchedText(n, size, p)
		default:
			prob := d.errorf(n, "bad-value", "error_collection cannot be %q", short(n.text))
			prob.Near(word, collections).Or("write aggregate, immediate or batched:N")
		}
	default:
		d.wrong(n, key, "a word").Suggest("write aggregate, immediate or batched:N")
	}
}

func (d *decoder) batchedText(n *node, size string, p *ErrorPolicy) {
	i, err := strconv.Atoi(strings.Trim(size, " _"))
	if err != nil || i < 1 {
		d.errorf(n, "bad-value", "error_collection %q does not say how many errors at a time", short(n.text)).Suggest("for example: error_collection: batched:5")
		return
	}
	p.Collection, p.BatchSize = "batched", i
}

func (d *decoder) batch(key string, n *node, p *ErrorPolicy) {
	p.Collection = "batched"
	if n.kind == mapNode {
		o, _ := d.object(n, batchTable) // it is a map
		d.batchSize(o, p)
		o.close()
		return
	}
	i, prob := d.integer(d.resolved(n), key, 1)
	if prob != nil {
		prob.Or("for example: error_collection: {batched: {size: 5}}")
		return
	}
	p.BatchSize = i
}

// errorBatch is when errors are shown, as a map.
type errorBatch struct {
	kind    string
	batched written
}

func (d *decoder) batchSize(o *object, p *ErrorPolicy) {
	batchTable.read(o, p)
	if o.keyOf(p, &p.BatchSize) == nil {
		d.errorf(o.n, "missing-key", "batched needs its size").Suggest("for example: error_collection: batched:5")
	}
}
