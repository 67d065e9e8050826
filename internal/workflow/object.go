package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/option"
)

// maxProblems bounds the list for a file that is no workflow at all.
const maxProblems = 500

// decoder builds the model of one file.
type decoder struct {
	file     *File
	treeRoot *node
	problems *diag.List
	strict   bool
	toRun    bool // a name that nothing sets is an error

	lookupEnv func(name string) (string, bool)
	sh        string // [Options.Sh]
	cut       bool   // problems were left out

	params              map[string]Param  // of this file, by name
	paramTexts          map[string]string // see paramText
	unfilled            []string          // required parameters whose values are not to be had
	agentTable          *table            // their names as keys of a step
	nested              int               // > 0 inside handlers and checks
	phase               byte              // where we are: c, s, m, r, g as in field.was
	top                 *retrySpec        // retry_defaults
	quotas              map[string]Quota  // by name
	calls               []pendingCall     // to be resolved when all is read
	uses                []use             // variables that are read
	names               map[string]int    // of variables that something sets: how many do
	plainIDs            map[string]bool   // ids of steps whose variable has the result of a command, and nothing else
	userNames           []string          // those that are not builtin, sorted
	nearNames           map[string]string // see nearName
	native              bool              // the file has keys that only bide has
	noAutoCommit        diag.Pos          // of the file's own auto_commit: false
	skipAll             *node             // the file's skip_permissions
	itemCost            *node             // the key of item_budget.cost; nil: it is not there
	itemTokens          *node             // that of item_budget.tokens
	bounds              *node             // the key of max_cost or max_tokens; nil: neither is there
	holds               bool              // inside on_hold
	loops, handlersOpen int               // > 0 inside foreach, and what follows a failure
	goals               int               // > 0 inside goal_seek
	looped              bool              // there is a foreach
	madeNames           bool              // a step sets variables by names that only the run knows
	outputNames         []string          // those that may be of them
	judging             int               // > 0 inside a condition on what an attempt gave
	foreign             []foreign         // texts with expressions of GitHub Actions
	labelled            map[string]*Step  // steps by their labels, when somebody has asked
	braced              []foreign         // texts with names in two pairs of braces
	needs               []*node           // names of steps that a step says it needs
	migration           *Migration        // nil where nobody asks for the present spelling
	former              diag.List         // keys that the predecessor took without effect
}

func (d *decoder) full() bool {
	if len(*d.problems) < maxProblems {
		return false
	}
	if !d.cut {
		d.cut = true
		d.problems.Errorf(diag.Pos{File: d.file.Path, Line: 1, Column: 1}, "too-many-problems",
			"the file has more than %d problems; the others are not listed", maxProblems).Suggest("mend these first")
	}
	return true
}

// errorf adds an error at a node, marking the node's text.
func (d *decoder) errorf(n *node, code, format string, args ...any) *diag.Problem {
	if d.full() || d.awaits(n) {
		return new(diag.Problem)
	}
	return d.problems.Errorf(n.pos, code, format, args...).To(n.end)
}

// warnf adds a warning at a node; under --strict those that mean a key without
// effect become errors.
func (d *decoder) warnf(n *node, code, format string, args ...any) *diag.Problem {
	if d.full() {
		return new(diag.Problem)
	}
	return d.warnAt(n.pos, code, format, args...).To(n.end)
}

// warnAt is warnf for a place that is no node's.
func (d *decoder) warnAt(pos diag.Pos, code, format string, args ...any) *diag.Problem {
	p := d.problems.Warnf(pos, code, format, args...)
	if d.strict {
		p.Severity = diag.Error
	}
	return p
}

// wrong reports a value of a form that its key does not take.
func (d *decoder) wrong(n *node, what, want string) *diag.Problem {
	if n.kind == strNode && d.foreignIn(n) {
		return new(diag.Problem)
	}
	have := n.kind.String()
	if n.scalar() && n.kind != nullNode {
		have = fmt.Sprintf("%s %q", have, short(n.text))
	}
	return d.errorf(n, "wrong-type", "%s takes %s, not %s", what, want, have)
}

// pairs are those of a map; where the node is none, that is told with an example.
func (d *decoder) pairs(n *node, what, want, example string) []pair {
	if n.kind != mapNode {
		d.wrong(n, what, want).Suggest("for example: %s", example)
	}
	return n.pairs
}

// awaits reports whether a text depends on a parameter whose value is not to
// be had yet, so that nothing can be said about it.
func (d *decoder) awaits(n *node) bool {
	if len(d.unfilled) == 0 || n.kind != strNode {
		return false
	}
	return slices.ContainsFunc(reference().FindAllStringSubmatch(n.text, -1), func(m []string) bool { return slices.Contains(d.unfilled, m[1]+m[2]) })
}

// maxKey is the length of a key that may be a known one, misspelt.
const maxKey = 100

func short(s string) string {
	s, _, _ = strings.Cut(s[:min(len(s), 400)], "\n")
	return diag.Clip(s, 40)
}

// object reads a map by the tables of its keys.
type object struct {
	d      *decoder
	n      *node
	tables []*table
	what   string
	used   []bool // by index of the pair
}

// object starts to read a map; ok is false, with an error, where n is none.
// Call close when every key was asked for.
func (d *decoder) object(n *node, tables ...*table) (o *object, ok bool) {
	if n.kind != mapNode {
		d.wrong(n, tables[0].what, "a map").Suggest("its keys are %s", someKeys(tables[0].keys()))
		return nil, false
	}
	return &object{d: d, n: n, tables: tables, what: tables[0].what, used: make([]bool, len(n.pairs))}, true
}

func someKeys(keys []string) string {
	if len(keys) > 8 {
		return strings.Join(keys[:8], ", ") + ", …"
	}
	return strings.Join(keys, ", ")
}

func (o *object) field(key string) (*field, bool) {
	for _, t := range o.tables {
		if f, ok := t.field(key); ok {
			return f, true
		}
	}
	return nil, false
}

// find gives the index of the pair with a key, or -1.
func (o *object) find(key string) int {
	for i := range o.n.pairs {
		if o.n.pairs[i].key.text == key {
			return i
		}
	}
	return -1
}

// has reports whether one of the keys is written, with or without a value.
func (o *object) has(keys ...string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { return o.find(k) >= 0 })
}

// peek is the value of a key without counting it as read.
func (o *object) peek(key string) *node {
	if i := o.find(key); i >= 0 {
		return o.n.pairs[i].val
	}
	return nil
}

// keyNode is the node of a written key, else the map's.
func (o *object) keyNode(key string) *node {
	if i := o.find(key); i >= 0 {
		return o.n.pairs[i].key
	}
	return o.n
}

// take reads a key: its value, or nil where it is missing or has none.
func (o *object) take(key string) *node {
	i := o.find(key)
	if i < 0 || o.used[i] {
		return nil
	}
	if _, ok := o.field(key); !ok {
		return nil // only what the tables list is ever read
	}
	o.used[i] = true
	p := o.n.pairs[i]
	o.d.noteNative(o, key)
	o.d.noteFormer(o, p.key)
	o.d.noteOlder(o, p.key)
	if p.val.kind == nullNode && p.val.tag == "" {
		o.d.warnf(p.key, "no-value", "%q has no value, so it has no effect", key).Suggest("give it one, or remove the key")
		return nil
	}
	return p.val
}

// spelled reads the first written one of the spellings of a key, and gives the one in
// which it is written; a second one is a warning.
func (o *object) spelled(names []string) (spelled string, found *node) {
	for _, k := range names {
		n := o.take(k)
		switch {
		case n == nil:
		case found == nil:
			spelled, found = k, n
		default:
			o.saysTheSame(k, spelled, found)
		}
	}
	return spelled, found
}

func (o *object) saysTheSame(key, as string, found *node) {
	o.d.warnf(o.keyNode(key), "no-effect", "%q says the same as %q on line %d, which counts", key, as, found.pos.Line).
		Suggest("keep one of the two")
}

// skip marks a key as read.
func (o *object) skip(keys ...string) {
	for _, k := range keys {
		if i := o.find(k); i >= 0 {
			o.used[i] = true
		}
	}
}

// noteNative notes a key of a file that only bide has.
func (d *decoder) noteNative(o *object, key string) {
	if f, ok := o.field(key); ok && f.native && o.tables[0] == fileTable {
		d.native = true
	}
}

// noteFormer records a key that used to be taken without effect.
func (d *decoder) noteFormer(o *object, key *node) {
	f, ok := o.field(key.text)
	if !ok || f.was == "" || f.inert != "" || len(d.former) >= maxProblems || f.fresh != nil && f.fresh(o.peek(key.text)) {
		return
	}
	if f.was != "*" && !strings.ContainsRune(f.was, rune(d.phase)) {
		return
	}
	d.former.Warnf(key.pos, "was-ignored", "%q had no effect in this place; now it has: %s", key.text, f.doc).To(key.end)
}

// close reports the keys that nobody asked for: unknown ones, and known ones
// that have no effect in this place or with these others beside them.
func (o *object) close() {
	for i, p := range o.n.pairs {
		if o.used[i] || o.d.full() {
			continue
		}
		f, known := o.field(p.key.text)
		switch {
		case known && f.inert != "":
			o.d.warnf(p.key, "no-effect", "%q has no effect: %s", p.key.text, f.inert).Suggest("remove the key")
		case known && o.tables[0] == fileTable && phaseInstead[p.key.text] != "" && p.val.kind != nullNode && p.key.src.path == o.d.file.Path: // its steps would never run
			o.d.errorf(p.key, "no-effect", "%q has no effect here: %s", p.key.text, o.whyInert(f)).Suggest("%s", phaseInstead[p.key.text])
		case known:
			o.d.warnf(p.key, "no-effect", "%q has no effect here: %s", p.key.text, o.whyInert(f)).Suggest("remove the key, or move it to where it belongs")
		default:
			o.unknown(p.key, p.val)
		}
	}
}

// phaseInstead says of lists of steps that a file of the other kind does not run, where such
// steps are written there.
var phaseInstead = map[string]string{
	"commands": "write the steps before the map under setup:, those after it under reduce:",
	"steps":    "write the steps before the map under setup:, those after it under reduce:",
	"reduce":   "it follows a map: write its steps at the end of commands:",
}

func (o *object) whyInert(f *field) string {
	if present, ok := o.field(f.as); ok {
		f = present
	}
	if strings.HasPrefix(f.doc, "beside ") {
		return "it stands " + strings.TrimSuffix(strings.SplitN(f.doc, ":", 2)[0], ";")
	}
	return o.what + " with these keys does not use it"
}

// foreignInputs maps words of foreach and of other tools for the items of a map to its key.
var foreignInputs = map[string]string{"items": "input", "item": "input", "list": "input", "values": "input", "over": "input", "matrix": "input", "files": "input", "in": "input", "source": "input", "foreach": "input", "for_each": "input", "each": "input"}

// foreignTemplates are other words for the steps of a map.
var foreignTemplates = func() map[string]string {
	others := map[string]string{}
	for _, word := range strings.Fields("steps commands command do run template task tasks jobs agent agents items_template shell claude") {
		others[word] = "agent_template"
	}
	return others
}()

// isAgent reports whether a map is a step of an agent.
func (o *object) isAgent() bool {
	return slices.ContainsFunc(o.n.pairs, func(p pair) bool {
		name := p.key.text
		return name == "claude" || o.d.file.Agents[name] != nil || builtIn[name] != nil
	})
}

// optionText is a value as the words after an option of a program.
func optionText(value *node) string {
	switch {
	case value == nil || value.text == "true":
		return ""
	case value.scalar() && len(value.text) <= 40 && !strings.ContainsAny(value.text, "\n:#{}[],"):
		return ", " + value.text
	}
	return ", …"
}

// valueOf says of the word of a value, which is written as a key of a policy, where it belongs.
func valueOf(of *table, word string) string {
	if of != retryTable && of != ruleTable && of != backoffTable {
		return ""
	}
	switch {
	case slices.Contains(option.Strategies, word):
		return "write backoff: " + word
	case slices.Contains(option.Jitters, word):
		return "write jitter: " + word
	}
	return ""
}

func (o *object) unknown(key, value *node) {
	var names []string
	for _, t := range o.tables {
		names = append(names, t.keys()...)
	}
	p := o.d.warnf(key, "unknown-key", "unknown key %q in %s; it is ignored", short(key.text), o.what)
	if text := writtenFor(o.tables[0], key.text, value, foreignKey(key.text, names) != ""); text != "" {
		p.Suggest("%s", text)
		if text == inTurn && o.tables[0] == stepTable && value != nil && len(o.d.needs) < maxProblems {
			o.d.needs = append(o.d.needs, value.each()...)
		}
		return
	}
	if o.tables[0] == stepTable && o.isAgent() && diag.Nearest(key.text, names) == "" {
		p.Suggest("options of the agent's program stand in args: [--%s%s]", strings.ReplaceAll(key.text, "_", "-"), optionText(value))
		return
	}
	if text := valueOf(o.tables[0], key.text); text != "" {
		p.Suggest("%s", text)
		return
	}
	near, elsewhere := "", ""
	if slices.Contains(foreignCommands, key.text) && o.tables[0] == agentTable {
		near = `did you mean "command"?`
	} else if ours := foreignKey(key.text, names); ours != "" {
		near = fmt.Sprintf("did you mean %q?", ours)
	} else if ours := cmp.Or(foreignTemplates[key.text], foreignInputs[key.text]); ours != "" && o.tables[0] == mapTable {
		p.Suggest("did you mean %q?", ours)
		return
	} else if len(key.text) <= maxKey {
		near = diag.DidYouMean(key.text, names)
	}
	for _, t := range tables {
		if _, ok := t.field(key.text); ok && (near == "" || slices.Contains([]*table{fileTable, stepTable, mapTable}, t)) {
			elsewhere = fmt.Sprintf("%q is a key of %s", key.text, t.what)
			break
		}
	}
	shape := fileShape{}
	if _, ok := mapTable.field(key.text); ok && o.tables[0] == fileTable && o.has(fileTable.keyFor(&shape, &shape.phase)) {
		p.Suggest("%q is a key of %s: indent it below map:", key.text, mapTable.what)
		return
	}
	if near != "" && elsewhere != "" {
		elsewhere = " (" + elsewhere + ")"
	}
	p.Suggest("%s", cmp.Or(near+elsewhere, fmt.Sprintf("the keys of %s are %s", o.what, someKeys(names))))
}

// mistaken finds an unknown key, of the first hundred, that is probably meant to be
// one of some names, which others have other words for.
func (o *object) mistaken(names []string, others map[string]string) (key *node, near string) {
	for _, q := range o.n.pairs[:min(len(o.n.pairs), 100)] {
		if _, known := o.field(q.key.text); known || len(q.key.text) > maxKey {
			continue
		}
		if near := cmp.Or(others[q.key.text], diag.Nearest(q.key.text, names)); near != "" {
			return q.key, near
		}
	}
	return nil, ""
}

// hint suggests the example that the table has for a key, where there is a problem.
func (o *object) hint(p *diag.Problem, key string) {
	if f, ok := o.field(key); ok && p != nil {
		p.Or("for example: %s: %s", key, f.sample)
	}
}
