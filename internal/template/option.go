package template

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// No word of data is an option. A word of a command that begins with a value
// and with a dash would be read as an option by most programs, whatever quotes
// are around it: `git ls-remote "${url}"` with --upload-pack=… runs a
// program. What the words come to is known when the values are, so that the
// plan keeps such words and fill looks at them, before anything runs.
//
// Words behind a -- of the text are taken, and so is the word behind an option
// of which we know that it takes one (git commit -m), a number, |option, and
// the words of test, of for lists, of arrays and of functions that the text itself
// defines. echo has few options, and only before its first word: - and -- and -x are
// words for it.

// guard is a word in which data may come to stand first.
type guard struct {
	command string
	parts   []guardPart
	noDash  bool // a -- before it does not help
	plus    bool // words that begin with + do things as well
	assigns bool // words NAME=value set what the program runs
	// options are those that there are, where all are known; nil: any word with a dash.
	options func(word string) bool
	leading bool // the words of a whole command, of which those before the first other one are options
}

// guardPart is a piece of such a word: data, or text of the author.
type guardPart struct {
	slot    int  // data, where > 0
	split   bool // blanks part it
	start   int  // where it stands in the script of r
	r       *rewriter
	lit     string // of the author
	unknown bool   // an expansion of the shell, which may be empty
	end     bool   // of a word, in a guard of several
}

var (
	// takesDashes are commands of which guardFew knows all options.
	takesDashes = wordSet("echo true false : test [ printf")
	// testOptions are options of test that work on a variable, whose index is code.
	testOptions = wordSet("-v -R")
	// helpOptions are what all programs of GNU have, also where the builtin has none.
	helpOptions = wordSet("--help --version")
	// noDoubleDash are programs for which a word behind -- may be an option still.
	noDoubleDash = wordSet("find ffmpeg ffprobe convert magick mogrify openssl gcc cc c++ g++ clang java javac expr ps dd")
	// passesOn are programs that hand on what is behind the first -- to
	// another program, which has options of its own.
	passesOn = wordSet("npm pnpm yarn npx cargo kubectl oc docker podman nerdctl dotnet mvn gradle poetry uv pipx rustup kind minikube make just task")
	// takesPlus are programs in which a word that begins with + is a command.
	takesPlus = wordSet("vi vim nvim view ex vimdiff gvim less more most nano emacs emacsclient pico ed")
)

// optionWords are the options of well-known programs behind which the next
// word is their value, so that it is no option whatever it begins with: the
// letters of short ones, and long ones. A subcommand is behind its program.
var optionWords = map[string]struct{ short, long string }{
	"git commit":   {"mFCct", "--message --file --author --date --trailer --fixup --squash"},
	"git tag":      {"mFu", "--message --file"},
	"git merge":    {"mFsX", "--message --file"},
	"git stash":    {"m", "--message"},
	"git notes":    {"mF", "--message --file"},
	"git log":      {"nSGL", "--grep --author --since --until --after --before"},
	"git grep":     {"e", ""},
	"gh issue":     {"tbFlaRmp", "--title --body --body-file --label --assignee --repo --milestone --project"},
	"gh pr":        {"tbFlaRrBHm", "--title --body --body-file --label --assignee --repo --reviewer --base --head"},
	"gh release":   {"tnFR", "--title --notes --notes-file --repo"},
	"gh api":       {"fFH", "--field --raw-field --header"},
	"grep":         {"efmABC", "--regexp --file"},
	"egrep":        {"efmABC", "--regexp --file"},
	"fgrep":        {"efmABC", "--regexp --file"},
	"rg":           {"efgtmABC", "--regexp --file --glob --type"},
	"curl":         {"dHXoubeAFTmUQrcwyYC", "--data --data-raw --data-binary --data-urlencode --data-ascii --json --header --request --output --user --user-agent --form --form-string --url --cookie --referer --max-time --connect-timeout --write-out"},
	"wget":         {"OPUt", "--output-document --header --post-data --user --password --user-agent"},
	"find":         {"", "-name -iname -path -ipath -wholename -iwholename -regex -iregex -newer -type -size -mtime -mmin -user -group -perm -maxdepth -mindepth -lname -ilname -printf"},
	"docker run":   {"evpwlu", "--name --env --volume --workdir --user --label --network --entrypoint --publish"},
	"docker build": {"tf", "--tag --file --build-arg --label --target"},
	"head":         {"nc", ""},
	"tail":         {"nc", ""},
	"cut":          {"dfbc", "--delimiter --fields"},
	"date":         {"d", "--date"},
	"touch":        {"dtr", "--date --reference"},
	"sort":         {"tk", ""},
	"tar":          {"fC", "--file --directory"},
	"jira":         {"", "--summary --description"},
	"logger":       {"tpi", "--tag"},
	"notify-send":  {"uiat", "--urgency --icon"},
	"mail":         {"s", ""},
	"sqlite3":      {"", "-cmd -separator -nullvalue"},
	"make":         {"fCj", ""},
	"tee":          {"", ""},
}

// valueOptions gives the options of a command that take the next word, and how
// many words the long ones of two take.
func (r *rewriter) valueOptions(name string, args []*syntax.Word) (short string, long, two []string) {
	o, ok := optionWords[name]
	if !ok {
		for i := 1; i < len(args); i++ {
			lit, plain := r.literalWord(args[i])
			if !plain {
				break
			}
			if (lit == "-C" || lit == "-c") && name == "git" {
				i++
				continue
			}
			if !strings.HasPrefix(lit, "-") {
				o = optionWords[name+" "+lit]
				break
			}
		}
	}
	short, long = o.short, strings.Fields(o.long)
	if w, ok := wrappers[name]; ok {
		short += w.valued
	}
	if i := languageOf(name); i >= 0 {
		short, two = short+languages[i].valued, languages[i].two
	}
	if name == "ssh" || name == "rsh" {
		short += sshOptions
	}
	return short, long, two
}

// anyCommand stands for the command of a word that is looked at alone.
const anyCommand = "x"

// guard keeps those words of a command that begin with data, or may.
func (r *rewriter) guard(args []*syntax.Word) {
	if len(args) == 0 {
		return
	}
	if lit, _ := r.literalWord(args[0]); r.bareOnly && lit == anyCommand && len(args) > 2 {
		args = args[1:] // printed text that holds a whole command
	}
	first, _ := r.literalWord(args[0])
	name := path.Base(first)
	if takesDashes(name) || r.functions[first] {
		r.guardFew(name, args)
		return
	}
	short, long, two := r.valueOptions(name, args)
	passes, noDash := passesOn(name), noDoubleDash(name)
	for i := 1; i < len(args); i++ {
		lit, plain := r.literalWord(args[i])
		if !plain {
			r.guardWord(args[i], guard{command: first, noDash: noDash, plus: takesPlus(name), assigns: name == "make" || name == "gmake"})
			continue
		}
		values := 0
		switch {
		case lit == "--" && passes:
			passes = false
		case lit == "--" && !noDash:
			return
		case contains(two, lit):
			values = 2
		case contains(long, lit) || takesValue(lit, short):
			values = 1
		}
		for ; values > 0 && i+1 < len(args); values-- {
			i++
			// The first word is the option's, but blanks may part a bare value.
			r.guardWord(args[i], guard{command: first, noDash: noDash, parts: []guardPart{{lit: " "}}})
		}
	}
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// takesValue: -m, and -am where m is the first letter that takes a word.
func takesValue(option, short string) bool {
	if len(option) < 2 || option[0] != '-' || option[1] == '-' {
		return false
	}
	i := strings.IndexAny(option[1:], short)
	return short != "" && i == len(option)-2
}

// guardFew looks at the commands that take most words with a dash as they are: their
// options, and the name of a variable that printf -v and test -v work on, can be named.
func (r *rewriter) guardFew(name string, args []*syntax.Word) {
	switch name {
	case "printf":
		if len(args) > 1 {
			r.guardWord(args[1], guard{command: name})
		}
	case "test", "[":
		for _, w := range args[1:] {
			r.guardWord(w, guard{command: name, options: testOptions})
		}
	case "true", "false":
		r.guardLeading(args[1:], guard{command: name, options: helpOptions})
	case "echo":
		r.guardLeading(args[1:], guard{command: name, options: echoOption})
	}
}

// echoOption: -n, -e, -E and those together, and what is an option for the program echo.
func echoOption(word string) bool {
	return len(word) > 1 && word[0] == '-' && strings.Trim(word[1:], "neE") == "" || helpOptions(word)
}

// guardLeading keeps the words of a command whose options are before all other words.
func (r *rewriter) guardLeading(args []*syntax.Word, g guard) {
	g.leading = true
	found := false
	for _, w := range args {
		if lit, plain := r.literalWord(w); plain {
			if !g.options(lit) {
				break
			}
			continue
		}
		if _, ok := r.has(w); ok {
			found = true
		}
		for _, p := range w.Parts {
			g.parts = r.guardParts(g.parts, p, true)
		}
		g.parts = append(g.parts, guardPart{end: true})
	}
	if found {
		r.plan.guards = append(r.plan.guards, g)
	}
}

// guardWord keeps a word that may begin with data, or be parted by it.
func (r *rewriter) guardWord(w *syntax.Word, g guard) {
	if _, ok := r.has(w); !ok {
		return
	}
	for _, p := range w.Parts {
		g.parts = r.guardParts(g.parts, p, true)
	}
	r.plan.guards = append(r.plan.guards, g)
}

func (r *rewriter) guardParts(parts []guardPart, p syntax.WordPart, bare bool) []guardPart {
	start, end := span(p)
	switch p := p.(type) {
	case *syntax.Lit:
		return append(parts, guardPart{lit: unescapeBare(p.Value)})
	case *syntax.SglQuoted:
		from := start + 1
		for _, m := range r.marks {
			if m.start >= start && m.end <= end {
				parts = append(parts, guardPart{lit: r.src[from:m.start]}, guardPart{slot: m.slot})
				from = m.end
			}
		}
		return append(parts, guardPart{lit: r.src[min(from, end-1) : end-1]})
	case *syntax.DblQuoted:
		for _, q := range p.Parts {
			parts = r.guardParts(parts, q, false)
		}
		return parts
	case *syntax.ParamExp:
		for _, m := range r.marks {
			if m.start == start && m.end == end {
				return append(parts, guardPart{slot: m.slot, split: bare, start: m.start, r: r})
			}
		}
		// In ${y:-${x}} the value may come to stand first.
		for _, m := range r.marks {
			if m.start >= start && m.end <= end {
				parts = append(parts, guardPart{unknown: true}, guardPart{slot: m.slot, split: bare, start: m.start, r: r})
			}
		}
	}
	return append(parts, guardPart{unknown: true})
}

// oneWord reports whether blanks part no value here, although it stands bare.
func (p *guardPart) oneWord() bool { return p.r != nil && slices.Contains(p.r.oneWord, p.start) }

// refusal is the error for the first word that the values make an option.
func (p *plan) refusal(uses []use) error {
	for i := range p.guards {
		if err := p.guards[i].check(p.slots, uses); err != nil {
			return err
		}
	}
	return nil
}

// guardCheck is a word that is being put together.
type guardCheck struct {
	g     *guard
	word  string
	slot  *slot // whose value stands first; nil where the author's text does
	begun bool
	done  bool // no option follows
	err   error
}

func (g *guard) check(slots []slot, uses []use) error {
	c := guardCheck{g: g}
	for _, part := range g.parts {
		switch {
		case part.end:
			c.end()
		case part.unknown:
			c.unknown()
		case part.slot == 0:
			c.add(part.lit, nil)
		default:
			c.value(&slots[part.slot-1], part.split && !(c.begun && part.oneWord()), uses)
		}
	}
	c.end()
	return c.err
}

// unknown is text that may be empty, or end the word. What follows may begin one.
func (c *guardCheck) unknown() {
	if c.slot == nil {
		c.begun = false
		return
	}
	c.word += "…" // no number
}

func (c *guardCheck) add(text string, from *slot) {
	if text == "" {
		return
	}
	if !c.begun {
		c.begun, c.slot = true, from
	}
	if c.slot != nil {
		c.word += text
	}
}

func (c *guardCheck) value(sl *slot, split bool, uses []use) {
	u := &uses[sl.use]
	switch {
	case sl.option:
		c.add("option", nil)
	case sl.sh:
		c.add(u.word, sl)
	case !split:
		c.add(u.text, sl)
	default:
		words, lead, trail := u.words()
		for i, word := range words {
			if i > 0 || lead {
				c.end()
			}
			c.add(word, sl)
		}
		if trail {
			c.end()
		}
	}
}

// end looks at a finished word.
func (c *guardCheck) end() {
	word, sl, g := c.word, c.slot, c.g
	c.word, c.slot, c.begun = "", nil, false
	if sl == nil || c.err != nil || c.done {
		return
	}
	switch {
	case g.options != nil:
		if !g.options(word) {
			c.done = g.leading
			return
		}
	case g.plus && strings.HasPrefix(word, "+"), g.assigns && strings.Contains(word, "="):
	case !strings.HasPrefix(word, "-") || isNumber(word):
		return
	}
	c.err = g.refuse(sl, word)
}

func (g *guard) refuse(sl *slot, word string) error {
	command := strconv.Quote(g.command)
	if g.command == "" {
		command = "the command"
	}
	optional := withOption(sl.src)
	mend := "write -- before it, ./ before the name of a file, or " + optional + " if it is meant to be an option"
	switch {
	case g.command == "echo":
		mend = "write printf '%s\\n' in place of echo, or " + optional + " if it is meant to be an option"
	case g.noDash || g.options != nil || g.plus:
		mend = "write ./ before the name of a file, or " + optional + " if it is meant to be an option"
	}
	return sl.errorf(mend, "the value of %s gives %s the word %s, which it could take for an option; data is never one",
		sl.src, command, shown(word))
}

// withOption is a reference that may be an option: its default stays behind that.
func withOption(src string) string {
	src = "${" + inner(src) + "}"
	at := len(src) - len("}")
	if t, err := parse(src, 0); err == nil && len(t.segs) == 1 && t.segs[0].ref != nil && t.segs[0].ref.def != nil {
		at = t.segs[0].ref.defOff - len(":-")
	}
	return src[:at] + "|option" + src[at:]
}

// definedFunctions are the functions of a text, which have no options of their own.
func definedFunctions(f *syntax.File) map[string]bool {
	var names map[string]bool
	syntax.Walk(f, func(n syntax.Node) bool {
		if d, ok := n.(*syntax.FuncDecl); ok {
			if names == nil {
				names = map[string]bool{}
			}
			names[d.Name.Value] = true
		}
		return true
	})
	return names
}
