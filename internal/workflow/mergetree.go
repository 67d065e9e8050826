package workflow

import "slices"

// composing says what becomes of a key where a file is made of several.
type composing int

const (
	overlaid  composing = iota // the file's value counts; maps are merged key by key
	before                     // the list of an import or a template comes before the file's own
	addParams                  // parameters are added to those of the other file
	ofOneFile                  // it is about the file in which it stands
)

// stepsOf is the list of steps of a file or a block that is a map, as it is written.
func stepsOf(n *node) written {
	var in blockSteps
	blockTable.look(n, &in)
	return in.list
}

// mergeOver lays over on base: maps key by key, all else replaced.
func mergeOver(base, over *node) *node { return merge(base, over, fileTable, false) }

// joinTrees takes first in before second: lists of steps one after the other,
// all else as mergeOver.
func joinTrees(first, second *node) *node { return merge(first, second, fileTable, true) }

// merge lays over on base, two maps with the keys of a table. A key of over takes the
// place of each spelling of it in base.
func merge(base, over *node, t *table, join bool) *node {
	if base.kind != mapNode || over.kind != mapNode {
		return over
	}
	out := *over
	out.pairs = nil
	done := make([]bool, len(over.pairs))
	for _, p := range base.pairs {
		f := t.row(p.key.text)
		at := t.written(over, p.key.text)
		switch {
		case f.composed == ofOneFile:
			continue
		case at < 0:
			out.pairs = append(out.pairs, p)
			continue
		case done[at]: // base has the key twice
			continue
		}
		done[at] = true
		v := over.pairs[at].val
		switch {
		case f.composed == addParams:
			v = joinParams(p.val, v)
		case f.composed == before && join:
			v = joinBlocks(p.val, v)
		default:
			v = merge(p.val, v, f.typ.table(v), false)
		}
		out.pairs = append(out.pairs, pair{over.pairs[at].key, v})
	}
	for i, p := range over.pairs {
		if !done[i] {
			out.pairs = append(out.pairs, p)
		}
	}
	return &out
}

// with is a map with another value in the place of one that it has.
func (n *node) with(val, other *node) *node {
	out := *n
	out.pairs = slices.Clone(n.pairs)
	for i := range out.pairs {
		if out.pairs[i].val == val {
			out.pairs[i].val = other
		}
	}
	return &out
}

// joinBlocks puts the steps of two blocks one after the other, each written as
// a list or as {commands: …}.
func joinBlocks(first, second *node) *node {
	a, b := first, second
	if a.kind == mapNode {
		a = stepsOf(a).val
	}
	if b.kind == mapNode {
		b = stepsOf(b).val
	}
	if a == nil || b == nil || a.kind != listNode || b.kind != listNode {
		return second
	}
	list := *b
	list.items = append(slices.Clone(a.items), b.items...)
	if first.kind == listNode && second.kind == listNode {
		return &list
	}
	out := second
	if first.kind == mapNode && second.kind == mapNode {
		out = merge(first, second, blockTable, false)
	} else if first.kind == mapNode {
		out = first
	}
	return out.with(stepsOf(out).val, &list)
}

// joinParams adds the parameters of a file to those it inherits.
func joinParams(base, over *node) *node {
	if base.kind != mapNode || over.kind != mapNode {
		return over
	}
	name := func(n *node) string {
		var own paramName
		if paramTable.look(n, &own); own.val != nil {
			return own.val.text
		}
		return n.text
	}
	own := map[string]bool{}
	for _, p := range over.pairs {
		for _, it := range p.val.items {
			own[name(it)] = true
		}
	}
	out := *over
	out.pairs = nil
	for _, p := range base.pairs {
		v := p.val
		if v.kind == listNode {
			kept := *v
			kept.items = slices.DeleteFunc(slices.Clone(v.items), func(n *node) bool { return own[name(n)] })
			if o := over.get(p.key.text); o != nil && o.kind == listNode {
				kept.items = append(kept.items, o.items...)
			}
			v = &kept
		} else if o := over.get(p.key.text); o != nil {
			v = merge(v, o, paramTable, false)
		}
		out.pairs = append(out.pairs, pair{p.key, v})
	}
	for _, p := range over.pairs {
		if base.get(p.key.text) == nil {
			out.pairs = append(out.pairs, p)
		}
	}
	return &out
}
