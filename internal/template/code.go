package template

import (
	"path"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// codeReader says whose code a command's standard input is, if anyone's.
type codeReader struct {
	shell    string // a shell that sees our variables, or remote
	remote   bool   // … or does not see them
	language string // another language
}

func (c codeReader) reads() bool { return c.shell != "" || c.language != "" }

var (
	shells     = wordSet("sh bash dash zsh ksh mksh ash busybox-sh rbash")
	remotes    = wordSet("ssh rsh mosh sudo su doas pkexec docker podman nerdctl kubectl oc nsenter machinectl lxc incus vagrant flatpak systemd-run wsl gcloud at batch")
	yqCommands = wordSet("eval e eval-all ea") // are before yq's program
	// inert commands never run their arguments, whatever these look like.
	inert = wordSet("echo printf cat test [ grep egrep fgrep rg git jq ls mkdir rmdir cp mv rm ln touch tee head tail sort uniq wc cut tr diff basename dirname read true false : cd mktemp chmod chown date curl wget")
	// wrappers run their arguments as a command: the options that take a word,
	// and how many words are before the command.
	wrappers = map[string]struct {
		valued   string
		operands int
	}{
		"env": {"uCS", 0}, "nice": {"n", 0}, "nohup": {}, "timeout": {"sk", 1}, "time": {"fo", 0}, "exec": {"a", 0}, "command": {}, "builtin": {},
		"xargs": {"aEdIiLlnPs", 0}, "stdbuf": {"ioe", 0}, "setsid": {}, "ionice": {"cnp", 0}, "chroot": {"", 1}, "taskset": {"", 1},
		"flock": {"wE", 1}, "unshare": {}, "caffeinate": {"tw", 0}, "sudo": {"ugCDhpRrTtU", 0}, "doas": {"uC", 0}, "busybox": {}, "chronic": {}, "unbuffer": {}, "parallel": {"jPNnI", 0},
		"chrt": {"", 1}, "prlimit": {}, "strace": {"oeps", 0}, "ltrace": {"oe", 0}, "systemd-run": {"up", 0},
		"npx": {"p", 0}, "bunx": {}, "uvx": {}, "entr": {},
	}
	// languages run code that is in their arguments: option letters before
	// code, or the first operand where program is set.
	languages = []struct {
		names   string // of its programs, with blanks between
		version bool   // a number may follow the name, as in python3.12
		name    string // of the language
		code    string // option letters
		long    string // long option
		valued  string // options that take another word
		two     []string
		program bool // without such an option the first operand is code
		stdin   bool // without a script, standard input is code
		files   bool // operands are what it works on: standard input is code beside them
	}{
		{names: "python pypy", version: true, name: "Python", code: "c", valued: "WX", stdin: true},
		{names: "perl", version: true, name: "Perl", code: "eE", stdin: true},
		{names: "ruby jruby", version: true, name: "Ruby", code: "e", valued: "I", stdin: true},
		{names: "node nodejs bun deno", name: "JavaScript", code: "ep", long: "--eval --print eval", stdin: true},
		{names: "php", version: true, name: "PHP", code: "r", stdin: true},
		{names: "lua luajit", version: true, name: "Lua", code: "e", stdin: true},
		{names: "Rscript", name: "R", code: "e", stdin: true},
		{names: "osascript", name: "AppleScript", code: "e", stdin: true},
		{names: "awk gawk mawk nawk", name: "awk", code: "e", long: "--source", valued: "Fvf", program: true},
		{names: "sed gsed", name: "sed", code: "e", long: "--expression", valued: "fl", program: true},
		{names: "jq gojq yq", name: "jq", valued: "fL", two: []string{"--arg", "--argjson", "--slurpfile", "--rawfile"}, program: true},
		{names: "bc gbc dc", name: "bc", code: "e", long: "--expression", stdin: true, files: true},
		{names: "ed red ex", name: "ed", code: "c", stdin: true, files: true},
		{names: "vi vim nvim view", name: "vi", code: "c", long: "--cmd", stdin: true, files: true},
		{names: "gdb lldb", name: "the debugger", code: "o", long: "-ex -iex -eval-command --eval-command --one-line", valued: "pxc", stdin: true, files: true},
		{names: "m4 gm4", name: "m4", stdin: true, files: true},
		{names: "sqlite3 psql mysql mariadb", name: "SQL", code: "ce", long: "--command --execute", valued: "dhpUP", stdin: true, files: true},
		{names: "expect tclsh wish", version: true, name: "Tcl", code: "c", stdin: true},
		{names: "gnuplot", name: "gnuplot", code: "e", stdin: true, files: true},
		{names: "script", name: "script's shell", code: "c", long: "--command", valued: "BEIOTmo", files: true},
	}
)

// wordSet says whether a word is one of those of a text. The set is made when it
// is first asked, so that not every start of bide pays for all of them.
func wordSet(text string) func(word string) bool {
	set := sync.OnceValue(func() map[string]bool {
		set := make(map[string]bool)
		for w := range strings.FieldsSeq(text) {
			set[w] = true
		}
		return set
	})
	return func(word string) bool { return set()[word] }
}

// codeAdvice says how data gets to code of a language.
func codeAdvice(language, src string) string {
	v := `"` + src + `"`
	switch language {
	case "awk":
		return "hand it over with -v name=" + v + ", or write |raw if it is meant to be code"
	case "jq":
		return "hand it over with --arg name " + v + " and read $name, or write |raw if it is meant to be code"
	case "sed":
		return "use awk with -v name=" + v + ", or write |raw if it is meant to be code"
	}
	return "put it into the step's env and read it from the environment there, or hand " + v + " over as an argument after the code, or write |raw if it is meant to be code"
}

// literalWord is the text of a word without expansions.
func (r *rewriter) literalWord(w *syntax.Word) (string, bool) {
	if _, ok := r.has(w); ok {
		return "", false
	}
	return literal(w)
}

func unescapeBare(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func unescapeDouble(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (r *rewriter) call(c *syntax.CallExpr) codeReader {
	for _, a := range c.Assigns {
		r.assign(a, bareWord)
	}
	if len(c.Args) == 0 {
		return codeReader{}
	}
	return r.run(c.Args, false)
}

// run rewrites a command and its words. remote: it runs where our variables
// are not seen.
func (r *rewriter) run(args []*syntax.Word, remote bool) codeReader {
	if len(args) == 0 {
		return codeReader{}
	}
	if r.choosesCommand(args) {
		return codeReader{}
	}
	first, ok := r.literalWord(args[0])
	if !ok {
		r.guard(args)
		r.words(args, bareWords)
		return codeReader{}
	}
	name := path.Base(first)
	remote = remote || remotes(name)
	switch {
	case shells(name):
		return r.runShell(name, args, remote)
	case name == "ssh" || name == "rsh":
		if r.commandData("ssh", args[:min(r.operand(args, sshOptions), len(args))]) {
			return codeReader{}
		}
		return r.runSSH(args)
	case name == "su":
		return r.runShell(name, args, true)
	case name == "bide":
		return r.runBide(args, remote)
	case name == "find":
		r.runFind(args, remote)
		return codeReader{}
	case name == "eval" || name == "watch":
		if name == "watch" {
			r.guard(args)
		}
		r.word(args[0], bareWords)
		for _, w := range args[1:] {
			r.code(w, remote, name)
		}
		return codeReader{}
	case name == "trap" && len(args) > 1:
		r.code(args[1], remote, name)
		r.words(args[2:], bareWords)
		return codeReader{}
	}
	if r.refused(name, args) || r.commandData(name, args) {
		return codeReader{}
	}
	if w, ok := wrappers[name]; ok {
		return r.runWrapper(args, w.valued, w.operands, name, remote)
	}
	if lang := languageOf(name); lang >= 0 {
		return r.runLanguage(lang, args)
	}
	if !inert(name) {
		if i := r.codeWithin(args); i > 0 {
			r.guard(args[:i])
			r.words(args[:i], bareWords)
			return r.run(args[i:], remote)
		}
	}
	r.guard(args)
	r.words(args, bareWords)
	return codeReader{}
}

// choosesCommand refuses data in the word that names the command, and after
// words that may come to nothing.
func (r *rewriter) choosesCommand(args []*syntax.Word) bool {
	for i, w := range args {
		if m, ok := r.has(w); ok {
			if i == 0 {
				r.errorAt(m, "write ${"+inner(r.plan.slots[m.slot-1].src)+"|raw} if it is meant to be code", "would choose which command runs")
			} else {
				r.errorAt(m, `put the command's name in quotes, or write ${NAME:?}`,
					"would choose which command runs where the words before it are empty")
			}
			return true
		}
		if !mayVanish(w) {
			return false
		}
	}
	return false
}

// mayVanish is true of unquoted expansions, which may be no word at all.
func mayVanish(w *syntax.Word) bool {
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.ParamExp:
			if p.Exp != nil && p.Exp.Op == syntax.ErrorUnsetOrNull {
				return false
			}
		case *syntax.CmdSubst:
		default:
			return false
		}
	}
	return true
}

// refused refuses data where a builtin takes a name or a file of code.
func (r *rewriter) refused(name string, args []*syntax.Word) bool {
	what := ""
	from := 1
	switch name {
	case ".", "source":
		what = "would choose the file whose code runs"
		args = args[:min(2, len(args))]
	case "unset", "read", "getopts", "mapfile", "readarray", "let", "export", "readonly", "local", "declare", "typeset":
		what = "would choose the variable that " + name + " works on, which can run code"
	case "alias":
		what = "would become code of an alias"
	case "printf", "test", "[":
		return r.refusedAfter("-v", name, args)
	default:
		return false
	}
	for _, w := range args[min(from, len(args)):] {
		if m, ok := r.has(w); ok && !(name == "export" && r.assigns(w, m)) {
			r.errorAt(m, "", "%s", what)
			return true
		}
		if name == "export" && r.commandVar(r.assignedName(w), w) {
			return true
		}
	}
	return false
}

func (r *rewriter) refusedAfter(option, name string, args []*syntax.Word) bool {
	for i := 1; i+1 < len(args); i++ {
		if lit, _ := r.literalWord(args[i]); lit != option {
			continue
		}
		if m, ok := r.has(args[i+1]); ok {
			r.errorAt(m, "", "would choose the variable that %s %s works on, which can run code", name, option)
			return true
		}
	}
	return false
}

// shellCode finds the code of sh -c: its index, or 0. script is the index of
// the file that is run instead, or 0.
func (r *rewriter) shellCode(args []*syntax.Word) (code, script int) {
	wantCode := false
	for i := 1; i < len(args); i++ {
		lit, ok := r.literalWord(args[i])
		switch {
		case !ok && wantCode:
			return i, 0
		case !ok:
			return 0, i
		case lit == "--command" || lit == "--session-command":
			wantCode = true
		case lit == "-" || lit == "--":
			continue
		case strings.HasPrefix(lit, "--"):
			if lit == "--rcfile" || lit == "--init-file" {
				i++
			}
		case strings.HasPrefix(lit, "-") || strings.HasPrefix(lit, "+"):
			wantCode = wantCode || lit[0] == '-' && strings.Contains(lit, "c")
			if strings.HasSuffix(lit, "s") && !wantCode {
				return 0, 0 // sh -s reads standard input
			}
			if strings.HasSuffix(lit, "o") || strings.HasSuffix(lit, "O") {
				i++
			}
		case wantCode:
			return i, 0
		default:
			return 0, i
		}
	}
	return 0, 0
}

func (r *rewriter) runShell(name string, args []*syntax.Word, remote bool) codeReader {
	code, script := r.shellCode(args)
	if name == "su" && code == 0 && script > 0 { // su USER -c CODE
		if next, _ := r.shellCode(args[script:]); next > 0 {
			code, script = script+next, 0
		}
	}
	if code > 0 && name != "su" {
		r.guard(args[:code]) // what follows the code is the code's
	} else {
		r.guard(args)
	}
	for i, w := range args {
		switch i {
		case 0:
		case code:
			r.code(w, remote, name)
		case script:
			if m, ok := r.has(w); ok && name != "su" {
				r.errorAt(m, "", "would choose the script that %s runs", name)
				return codeReader{}
			}
			r.word(w, bareWords)
		default:
			r.word(w, bareWords)
		}
	}
	if code == 0 && (script == 0 || name == "su") {
		return codeReader{shell: name, remote: remote}
	}
	return codeReader{}
}

// sshOptions are the options of ssh that take a word.
const sshOptions = "BbcDEeFIiJLlmOopQRSWw"

// runSSH: what follows the host is code of the far shell, which gets it in one
// line and without our variables.
func (r *rewriter) runSSH(args []*syntax.Word) codeReader {
	host := r.operand(args, sshOptions)
	r.guard(args[:min(host+1, len(args))])
	if host+1 < len(args) {
		r.guard(args[host+1:])
	}
	r.words(args[:min(host+1, len(args))], bareWord)
	if host+1 >= len(args) {
		return codeReader{shell: "ssh", remote: true}
	}
	for i, w := range args[host+1:] {
		if m, ok := r.has(w); ok && r.twice(m) {
			return codeReader{}
		}
		was := r.quotedOnly
		r.quotedOnly = "ssh"
		if _, ok := r.has(w); ok && i == 0 {
			r.farCode("", inWord, w)
		}
		r.word(w, bareWords)
		r.quotedOnly = was
	}
	if name, _ := r.literalWord(args[host+1]); shells(path.Base(name)) {
		if code, script := r.shellCode(args[host+1:]); code == 0 && script == 0 {
			return codeReader{shell: "ssh", remote: true}
		}
	}
	return codeReader{}
}

// operand gives the index of the first word that is neither an option nor an
// option's word.
func (r *rewriter) operand(args []*syntax.Word, valued string) int {
	for i := 1; i < len(args); i++ {
		lit, ok := r.literalWord(args[i])
		switch {
		case !ok && strings.HasPrefix(r.prefix(args[i]), "-"):
			continue
		case !ok || lit == "" || lit[0] != '-' || lit == "-":
			return i
		case lit == "--":
			return i + 1
		case len(lit) == 2 && strings.Contains(valued, lit[1:]):
			i++
		}
	}
	return len(args)
}

// prefix is the literal text at the start of a word.
func (r *rewriter) prefix(w *syntax.Word) string {
	src := strings.TrimLeft(r.src[span1(w):int(w.End().Offset())], `"'`)
	if i := strings.IndexAny(src, "$`"); i >= 0 {
		src = src[:i]
	}
	return src
}

// readerOf tells whose code the standard input of a statement is, without
// rewriting anything.
func (r *rewriter) readerOf(s *syntax.Stmt) codeReader {
	var c *syntax.CallExpr
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		c = cmd
	case *syntax.TimeClause:
		if cmd.Stmt != nil {
			return r.readerOf(cmd.Stmt)
		}
	case *syntax.BinaryCmd:
		return r.readerOf(cmd.X)
	case *syntax.Block:
		return r.readerOfAny(cmd.Stmts)
	case *syntax.Subshell:
		return r.readerOfAny(cmd.Stmts)
	}
	if c == nil || len(c.Args) == 0 {
		return codeReader{}
	}
	dry := &rewriter{plan: r.plan, src: r.src, seen: make([]bool, 0)}
	return dry.run(c.Args, false)
}

func (r *rewriter) readerOfAny(list []*syntax.Stmt) codeReader {
	for _, s := range list {
		if code := r.readerOf(s); code.reads() {
			return code
		}
	}
	return codeReader{}
}
