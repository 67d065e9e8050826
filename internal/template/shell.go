package template

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"mvdan.cc/sh/v3/syntax"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/expr"
)

// How a data value reaches a place in a shell text, where Vn is its
// environment variable BIDE_Vn:
//
//	echo ${x}              echo "${V1_1}" "${V1_2}" …   split at blanks as a pasted word would be; never a glob;
//	                                                    a list is one word an element
//	"a ${x}"               "a ${V1}"
//	'a ${x}'               'a '"${V1}"''
//	<<EOF … ${x}           ${V1}
//	<<'EOF' … ${x}         <<EOF, all else in the body escaped, ${V1}
//	y=${x}  >${x}  <<<${x} case ${x} in  [[ ${x} = … ]]   "${V1}", never split
//	case … in ${x})  ${y#${x}}                            "${V1}": a text, not a pattern
//	$((${x}+1))  arr[${x}]  [[ ${x} -gt 1 ]]              ${V1}, and the value must be an integer
//	sh -c 'echo ${x}'      the code is rewritten by the same rules, and the inner shell reads V1
//	awk '… ${x} …'         code of another language: only a number may be there
//	ssh host "… ${x} …"    code of a shell that does not see V1: only ${x|sh} may be there, bare
//	sh -c "$(… ${x} …)"    refused: its result becomes code, where no quoting can be right
//	${x} …                 refused: data would choose the command
//	ls ${x}  ls "${x}"     refused where a word of the value begins with - and is no number: see option.go
//
// $$ is the shell's own except before { and before a name we know; \$ stays as
// it is. A name that the script itself assigns is the script's from there on.
//
// What the script makes of a value once it has it (eval "$y" after y=${x}, a
// script file written with cat, make NAME=${x}) is beyond what a text shows.

const (
	varPrefix = "BIDE_V"
	// maxVariable is what one environment entry or argument may hold: Linux's
	// MAX_ARG_STRLEN of 32 pages, less the name, the = and the final NUL.
	maxVariable = 128<<10 - 64
	maxFields   = 4096 // words out of one bare value
	maxPlans    = 64   // shapes of a text that are remembered
)

// Command is a shell step's text made ready to run.
type Command struct {
	// Argv is not nil where the text is plain words, which run the same without a
	// shell. Its program is found by PATH; where it is not found, or is but a
	// builtin of the user's shell, Line says the same to a shell.
	Argv   []string
	Script string   // for sh -c, where Argv is nil
	Env    []string // NAME=value additions that carry data
}

// Line is the command as a script for sh -c, also where Argv is set.
func (c Command) Line() string {
	if c.Argv == nil {
		return c.Script
	}
	words := make([]string, len(c.Argv))
	for i, w := range c.Argv {
		if words[i] = w; i > 0 || !isPlainName(w) {
			words[i] = diag.ShellQuote(w)
		}
	}
	return strings.Join(words, " ")
}

func isPlainName(w string) bool {
	return w != "" && strings.IndexFunc(w, func(r rune) bool { return r > 127 || !isNameByte(byte(r)) && !strings.ContainsRune("-./+", r) }) < 0
}

// shellCache remembers how the text is to be rewritten, by which references
// are known, which are data, and what trusted text is pasted.
type shellCache struct {
	last  atomic.Pointer[cached]
	mu    sync.Mutex
	plans map[string]*plan
	own   ownNames
	segs  []segment
	once  sync.Once

	certainOnce sync.Once
	certain     []int // offsets of what MustExpand is true of
}

type cached struct {
	key  string
	plan *plan
}

// use is what one segment is for one scope.
type use struct {
	how  byte // one of the use… constants
	text string
	word string   // of |sh: the text before it was quoted
	list []string // of a list: its elements; nil for a text
}

// words are the words of a bare value: the elements of a list, or what blanks
// part in a text. lead and trail say that blanks are at its ends.
func (u *use) words() (words []string, lead, trail bool) {
	if u.list != nil || u.text == "" {
		return u.list, false, false
	}
	words = strings.FieldsFunc(u.text, func(r rune) bool { return strings.ContainsRune(blanks, r) })
	return words, strings.IndexByte(blanks, u.text[0]) >= 0, strings.IndexByte(blanks, u.text[len(u.text)-1]) >= 0
}

const (
	useUnknown = 'u' // left as written
	usePaste   = 'p' // trusted: pasted
	useData    = 'd' // handed over in a variable
)

// Shell makes the text ready for a shell. The error is an *expr.SyntaxError at
// the reference that cannot stand where it does, or whose value cannot. A text
// without data is passed on as it is, shell or not.
func (t *Text) Shell(s Scope) (Command, error) {
	c, err := t.ready(s)
	return c, t.located(err)
}

func (t *Text) ready(s Scope) (Command, error) {
	var buf [8]use
	uses := buf[:0]
	var keyBuf [256]byte
	key := keyBuf[:0]
	segs := t.shellSegs()
	for i := range segs {
		seg := &segs[i]
		if seg.kind == segLiteral {
			continue
		}
		u, err := t.use(seg, s)
		if err != nil {
			return Command{}, at(err, seg.off)
		}
		if u.how != useUnknown && strings.IndexByte(u.text, 0) >= 0 {
			return Command{}, at(fmt.Errorf("the value of %s holds a NUL byte, which no shell can take", seg.text), seg.off)
		}
		uses = append(uses, u)
		key = append(key, u.how)
		if u.how == usePaste {
			key = strconv.AppendInt(key, int64(len(u.text)), 10)
			key = append(append(key, ':'), u.text...)
		}
	}
	p := t.plan(key, uses)
	if p.err != nil {
		err := *p.err // a copy: the plan is shared
		return Command{}, &err
	}
	return p.fill(t, s, uses)
}

// use decides what a segment that is no literal becomes.
func (t *Text) use(seg *segment, s Scope) (use, error) {
	switch seg.kind {
	case segDollars, segBackslash, segEscapedName:
		return use{how: useUnknown}, nil
	case segDollarsRef:
		return use{how: usePaste, text: "$"}, nil
	case segDollarsName:
		if _, ok := s.Lookup(seg.ref.head.name); ok {
			return use{how: usePaste, text: "$"}, nil
		}
		return use{how: useUnknown}, nil
	}
	r := seg.ref
	if len(r.head.path) == 1 && t.own(r.head.name, seg.off) {
		return use{how: useUnknown}, nil
	}
	v, known, err := r.resolve(s)
	if err != nil || !known {
		return use{how: useUnknown}, err
	}
	u := use{how: usePaste, text: v.text(), word: v.word, list: v.elements()}
	if v.origin != Trusted || r.sh {
		u.how = useData
	}
	return u, nil
}

// plan finds or makes the plan for key.
func (t *Text) plan(key []byte, uses []use) *plan {
	c := &t.shell
	if last := c.last.Load(); last != nil && last.key == string(key) {
		return last.plan
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.plans[string(key)]
	if !ok {
		p = t.compile(uses)
		if c.plans == nil || len(c.plans) >= maxPlans {
			c.plans = make(map[string]*plan)
		}
		c.plans[string(key)] = p
	}
	c.last.Store(&cached{string(key), p})
	return p
}

// plan is a rewritten shell text that waits for its data.
type plan struct {
	err    *expr.SyntaxError
	words  []plainWord // plain words, or nil
	pieces []piece     // of the script
	slots  []slot      // by number, less one
	guards []guard     // words that may begin with data
}

// slot is one variable's worth of data. Equal references share one.
type slot struct {
	use     int // index among uses
	off     int
	src     string
	name    string // "BIDE_V1="
	sh      bool
	option  bool   // the author lets it be an option
	whole   bool   // the script reads the whole value
	word    bool   // the script reads what |sh has quoted
	integer bool   // it is in arithmetic
	number  string // it is in code of this language
}

// piece of a script: literal text, or where slot > 0 a bare value, whose
// expansions have their $ and quotes escaped escapes times.
type piece struct {
	lit     string
	slot    int
	escapes int
	first   bool // of its slot: the one that brings the variables
}

// blanks part the words of a bare value, as the shell's default IFS does.
const blanks = " \t\n"

// fill puts the data of one scope into the plan.
func (p *plan) fill(t *Text, s Scope, uses []use) (Command, error) {
	for i := range p.slots {
		if err := p.slots[i].check(uses[p.slots[i].use].text, s); err != nil {
			return Command{}, err
		}
	}
	if err := p.refusal(uses); err != nil {
		return Command{}, err
	}
	if p.words != nil {
		if argv, ok := p.argv(uses); ok {
			return Command{Argv: argv}, nil
		}
	}
	var c Command
	if len(p.pieces) == 1 && p.pieces[0].slot == 0 {
		c.Script = p.pieces[0].lit
	} else {
		var b strings.Builder
		for _, piece := range p.pieces {
			if piece.slot == 0 {
				b.WriteString(piece.lit)
				continue
			}
			var err error
			if c.Env, err = p.slots[piece.slot-1].bare(&b, c.Env, piece, uses); err != nil {
				return Command{}, err
			}
		}
		c.Script = b.String()
	}
	for i := range p.slots {
		sl := &p.slots[i]
		u := &uses[sl.use]
		if sl.whole {
			c.Env = append(c.Env, sl.name+u.text)
		}
		if sl.word {
			c.Env = append(c.Env, strings.TrimSuffix(sl.name, "=")+"_W="+u.word)
		}
	}
	return c, nil
}

// bare writes the words of a bare value: blanks part them, and each is a
// variable of its own in double quotes, so that nothing in it is a pattern.
func (sl *slot) bare(b *strings.Builder, env []string, p piece, uses []use) ([]string, error) {
	u := &uses[sl.use]
	name := strings.TrimSuffix(sl.name, "=")
	dollar := strings.Repeat(`\`, 1<<p.escapes-1) + "$"
	if u.list == nil && u.text != "" && !strings.ContainsAny(u.text, blanks) {
		b.WriteString(`"` + dollar + `{` + name + `}"`)
		if p.first && !sl.whole {
			env = append(env, sl.name+u.text)
		}
		return env, nil
	}
	words, lead, trail := u.words()
	if len(words) > maxFields {
		return nil, sl.errorf("write it in quotes to hand it over as one word", "the value of %s is more than %d words", sl.src, maxFields)
	}
	for i, word := range words {
		if i > 0 || lead {
			b.WriteByte(' ')
		}
		field := name + "_" + strconv.Itoa(i+1)
		b.WriteString(`"` + dollar + `{` + field + `}"`)
		if p.first {
			env = append(env, field+"="+word)
		}
	}
	if trail {
		b.WriteByte(' ')
	}
	return env, nil
}

func (sl *slot) errorf(suggestion, format string, args ...any) error {
	return &expr.SyntaxError{Offset: sl.off, Message: fmt.Sprintf(format, args...), Suggestion: suggestion}
}

// check refuses values that cannot stand where the slot is.
func (sl *slot) check(text string, s Scope) error {
	if len(text) > maxVariable {
		return sl.tooLarge(len(text), s)
	}
	if sl.integer && !isInteger(text) {
		return sl.errorf("", "the value of %s is in arithmetic, where a text would be run as code: it must be an integer, and is %s", sl.src, shown(text))
	}
	if sl.number != "" && !isNumber(text) {
		return sl.errorf(codeAdvice(sl.number, sl.src), "the value of %s would become code of %s", sl.src, sl.number)
	}
	return nil
}

func (sl *slot) tooLarge(size int, s Scope) error {
	advice := "write it to a file with write_file and name the file instead"
	name := strings.TrimSuffix(strings.TrimPrefix(sl.src, "${"), "}")
	name, _, _ = strings.Cut(name, "|")
	if f, ok := s.(Filer); ok {
		if file, ok := f.FileFor(name); ok {
			advice = "use ${" + file + "}, a file that holds it"
		}
	}
	return sl.errorf(advice, "the value of %s is %s, too large for an environment variable or argument (128 KiB)", sl.src, diag.Bytes(int64(size)))
}

func shown(text string) string { return strconv.Quote(diag.Clip(text, 40)) }

// isInteger is true of what every shell's arithmetic takes as one number.
func isInteger(s string) bool {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	if hex, ok := strings.CutPrefix(s, "0x"); ok {
		return hex != "" && strings.Trim(hex, "0123456789abcdefABCDEF") == ""
	}
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// isNumber is true of what is a plain number in every language.
func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	whole, frac, dot := strings.Cut(s, ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	return digits(whole) && (!dot || digits(frac))
}

// split cuts a rewritten text at the marks of its bare values: NUL, the slot's
// number, one $ for each escape, NUL.
func split(text string) []piece {
	var pieces []piece
	seen := make(map[int]bool)
	for {
		i := strings.IndexByte(text, 0)
		if i < 0 {
			if text != "" || pieces == nil {
				pieces = append(pieces, piece{lit: text})
			}
			return pieces
		}
		if i > 0 {
			pieces = append(pieces, piece{lit: text[:i]})
		}
		mark, rest, _ := strings.Cut(text[i+1:], "\x00")
		digits := strings.TrimRight(mark, "$")
		n, err := strconv.Atoi(digits)
		if err != nil {
			return []piece{{lit: text}} // cannot be: only bareMark writes NULs
		}
		pieces = append(pieces, piece{slot: n, escapes: len(mark) - len(digits), first: !seen[n]})
		seen[n] = true
		text = rest
	}
}

func bareMark(slot int) string { return "\x00" + strconv.Itoa(slot) + "\x00" }

// skeleton is the text with trusted values pasted and each piece of data
// standing as the expansion of its variable.
type skeleton struct {
	out   bytes.Buffer // what will be run
	parse bytes.Buffer // the same for the parser: what no shell could read is blotted out
	marks []mark
	from  []origin
}

// mark is where a slot's expansion stands.
type mark struct{ start, end, slot int }

// origin maps a place of the skeleton to the text.
type origin struct{ skel, src int }

func (sk *skeleton) add(text, forParser string, src int) {
	sk.from = append(sk.from, origin{sk.out.Len(), src})
	sk.out.WriteString(text)
	sk.parse.WriteString(forParser)
}

// source gives the place in the text of a place in the skeleton.
func (sk *skeleton) source(off int) int {
	best := origin{}
	for _, o := range sk.from {
		if o.skel <= off {
			best = o
		}
	}
	return best.src
}

// compile makes the plan for one shape of the text.
func (t *Text) compile(uses []use) *plan {
	p := &plan{}
	sk := &skeleton{}
	numbers := make(map[string]int)
	n := 0
	segs := t.shellSegs()
	for i := range segs {
		seg := &segs[i]
		if seg.kind == segLiteral {
			sk.add(seg.text, seg.text, seg.off)
			continue
		}
		u := &uses[n]
		n++
		switch u.how {
		case useUnknown:
			sk.add(seg.text, blot(seg), seg.off)
		case usePaste:
			sk.add(u.text, u.text, seg.off)
		case useData:
			number, ok := numbers[seg.text]
			if !ok {
				number = len(p.slots) + 1
				numbers[seg.text] = number
				p.slots = append(p.slots, slot{use: n - 1, off: seg.off, src: seg.text,
					name: varPrefix + strconv.Itoa(number) + "=", sh: seg.ref.sh, option: seg.ref.option})
			}
			text := expansion(number)
			start := sk.out.Len()
			sk.add(text, text, seg.off)
			sk.marks = append(sk.marks, mark{start, sk.out.Len(), number})
		}
	}
	if i := bytes.IndexByte(sk.out.Bytes(), 0); i >= 0 {
		p.err = &expr.SyntaxError{Offset: sk.source(i), Message: "the text holds a NUL byte, which no shell can take"}
		return p
	}
	p.rewrite(sk)
	return p
}

func expansion(slot int) string { return "${" + varPrefix + strconv.Itoa(slot) + "}" }

// blot makes a reference readable for the parser, byte for byte: what a real
// shell makes of an unknown ${a.b} is between the user and that shell.
func blot(seg *segment) string {
	if seg.ref == nil || seg.ref.bare || shellsOwn(seg.text) {
		return seg.text
	}
	b := []byte(seg.text)
	for i := 2; i < len(b)-1; i++ {
		if !isNameByte(b[i]) {
			b[i] = '_'
		}
	}
	return string(b)
}

// readable is the text as the parser can read it, byte for byte.
func (t *Text) readable() string {
	var b strings.Builder
	for i := range t.segs {
		b.WriteString(blot(&t.segs[i]))
	}
	return b.String()
}

// shellFile is the text as a shell would read it; nil where it is none.
func (t *Text) shellFile() *syntax.File {
	file, err := parseShell(t.readable())
	if err != nil {
		return nil
	}
	return file
}

// shellsOwn is true of ${NAME:=text}, ${NAME:?text} and ${NAME:+text}.
func shellsOwn(src string) bool {
	end := nameEnd(src, 2)
	return end > 2 && len(src) > end+1 && src[end] == ':' && strings.IndexByte("=?+", src[end+1]) >= 0
}
