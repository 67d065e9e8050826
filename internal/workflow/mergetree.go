package workflow

import "slices"

// sameSteps writes steps: as commands:, so that two files' lists meet.
func sameSteps(n *node) *node {
	var in blockSteps
	blockTable.look(n, &in)
	present := blockTable.keyFor(&in, &in.list)
	if !in.list.there() || n.get(present) != nil {
		return n
	}
	out := *n
	out.pairs = slices.Clone(n.pairs)
	for i, p := range out.pairs {
		if p.key == in.list.key {
			key := *p.key
			key.text = present
			out.pairs[i].key = &key
		}
	}
	return &out
}

// stepsOf is the list of steps of a file or a block that is a map; nil where it has none.
func stepsOf(n *node) *node {
	var in blockSteps
	blockTable.look(sameSteps(n), &in)
	return in.list.val
}

// notInherited are keys that are about the one file they stand in.
var notInherited = []string{"imports", "extends", "template"}

// mergeOver lays over on base: maps key by key, all else replaced.
func mergeOver(base, over *node) *node { return mergeWith(base, over, false, true) }

// joinTrees takes first in before second: lists of steps one after the other,
// all else as mergeOver.
func joinTrees(first, second *node) *node { return mergeWith(first, second, true, true) }

var joinedKeys = []string{"commands", "setup", "reduce", "merge", "env_files"}

func mergeWith(base, over *node, join, top bool) *node {
	if base.kind != mapNode || over.kind != mapNode {
		return over
	}
	out := *over
	out.pairs = nil
	inBase, inOver := base.index(), over.index()
	for _, p := range base.pairs {
		if top && slices.Contains(notInherited, p.key.text) {
			continue
		}
		o := inOver[p.key.text]
		switch {
		case o == nil:
			out.pairs = append(out.pairs, p)
		case top && p.key.text == "parameters":
			out.pairs = append(out.pairs, pair{p.key, joinParams(p.val, o)})
		case top && join && slices.Contains(joinedKeys, p.key.text):
			out.pairs = append(out.pairs, pair{p.key, joinBlocks(p.val, o)})
		default:
			out.pairs = append(out.pairs, pair{p.key, mergeWith(p.val, o, false, false)})
		}
	}
	for _, p := range over.pairs {
		if inBase[p.key.text] == nil || (top && slices.Contains(notInherited, p.key.text)) {
			out.pairs = append(out.pairs, p)
		}
	}
	return &out
}

// index is a map's values by key.
func (n *node) index() map[string]*node {
	m := make(map[string]*node, len(n.pairs))
	for _, p := range n.pairs {
		m[p.key.text] = p.val
	}
	return m
}

// joinBlocks puts the steps of two blocks one after the other, each written as
// a list or as {commands: …}.
func joinBlocks(first, second *node) *node {
	a, b := first, second
	if a.kind == mapNode {
		a = stepsOf(a)
	}
	if b.kind == mapNode {
		b = stepsOf(b)
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
		out = mergeOver(sameSteps(first), sameSteps(second))
	} else if first.kind == mapNode {
		out = first
	}
	joined := *sameSteps(out)
	joined.pairs = slices.Clone(joined.pairs)
	for i, p := range joined.pairs {
		if p.val == stepsOf(&joined) {
			joined.pairs[i].val = &list
		}
	}
	return &joined
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
			v = mergeOver(v, o)
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
