package template

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

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
	yqCommands = wordSet("eval e eval-all ea") // stand before yq's program
	// inert commands never run their arguments, whatever these look like.
	inert = wordSet("echo printf cat test [ grep egrep fgrep rg git jq ls mkdir rmdir cp mv rm ln touch tee head tail sort uniq wc cut tr diff basename dirname read true false : cd mktemp chmod chown date curl wget")
	// wrappers run their arguments as a command: the options that take a word,
	// and how many words stand before the command.
	wrappers = map[string]struct {
		valued   string
		operands int
	}{
		"env": {"uCS", 0}, "nice": {"n", 0}, "nohup": {}, "timeout": {"sk", 1}, "time": {"fo", 0}, "exec": {"a", 0}, "command": {}, "builtin": {},
		"xargs": {"aEdIiLlnPs", 0}, "stdbuf": {"ioe", 0}, "setsid": {}, "ionice": {"cnp", 0}, "chroot": {"", 1}, "taskset": {"", 1},
		"flock": {"wE", 1}, "unshare": {}, "caffeinate": {"tw", 0}, "sudo": {"ugCDhpRrTtU", 0}, "doas": {"uC", 0}, "busybox": {}, "chronic": {}, "unbuffer": {}, "parallel": {"jPNnI", 0},
		"chrt": {"", 1}, "prlimit": {}, "strace": {"oeps", 0}, "ltrace": {"oe", 0}, "systemd-run": {"up", 0},
	}
	// languages run code that stands in their arguments: option letters before
	// code, or the first operand where program is set.
	languages = []struct {
		re      *regexp.Regexp
		name    string
		code    string // option letters
		long    string // long option
		valued  string // options that take another word
		two     []string
		program bool // without such an option the first operand is code
		stdin   bool // without a script, standard input is code
	}{
		{re: regexp.MustCompile(`^(python|pypy)[\d.]*$`), name: "Python", code: "c", valued: "WX", stdin: true},
		{re: regexp.MustCompile(`^perl[\d.]*$`), name: "Perl", code: "eE", stdin: true},
		{re: regexp.MustCompile(`^(ruby|jruby)[\d.]*$`), name: "Ruby", code: "e", valued: "I", stdin: true},
		{re: regexp.MustCompile(`^(node|nodejs|bun|deno)$`), name: "JavaScript", code: "ep", long: "--eval --print eval", stdin: true},
		{re: regexp.MustCompile(`^php[\d.]*$`), name: "PHP", code: "r", stdin: true},
		{re: regexp.MustCompile(`^(lua|luajit)[\d.]*$`), name: "Lua", code: "e", stdin: true},
		{re: regexp.MustCompile(`^Rscript$`), name: "R", code: "e", stdin: true},
		{re: regexp.MustCompile(`^osascript$`), name: "AppleScript", code: "e", stdin: true},
		{re: regexp.MustCompile(`^[gmn]?awk$`), name: "awk", code: "e", long: "--source", valued: "Fvf", program: true},
		{re: regexp.MustCompile(`^g?sed$`), name: "sed", code: "e", long: "--expression", valued: "fl", program: true},
		{re: regexp.MustCompile(`^(jq|gojq|yq)$`), name: "jq", valued: "fL", two: []string{"--arg", "--argjson", "--slurpfile", "--rawfile"}, program: true},
		{re: regexp.MustCompile(`^g?bc$`), name: "bc", stdin: true},
	}
)

func wordSet(s string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
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
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(unescapeBare(p.Value))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				lit, ok := q.(*syntax.Lit)
				if !ok {
					return "", false
				}
				b.WriteString(unescapeDouble(lit.Value))
			}
		default:
			return "", false
		}
	}
	return b.String(), true
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
		r.words(args, bareWords)
		return codeReader{}
	}
	name := path.Base(first)
	remote = remote || remotes[name]
	switch {
	case shells[name]:
		return r.runShell(name, args, remote)
	case name == "ssh" || name == "rsh":
		return r.runSSH(args)
	case name == "su":
		return r.runShell(name, args, true)
	case name == "find":
		r.runFind(args, remote)
		return codeReader{}
	case name == "eval" || name == "watch":
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
	if r.refused(name, args) {
		return codeReader{}
	}
	if w, ok := wrappers[name]; ok {
		return r.runWrapper(args, w.valued, w.operands, name, remote)
	}
	if lang := languageOf(name); lang >= 0 {
		return r.runLanguage(lang, args)
	}
	if !inert[name] {
		if i := r.codeWithin(args); i > 0 {
			r.words(args[:i], bareWords)
			return r.run(args[i:], remote)
		}
	}
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
					"would choose which command runs where the words before it come to nothing")
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

// runSSH: what follows the host is code of the far shell, which gets it in one
// line and without our variables.
func (r *rewriter) runSSH(args []*syntax.Word) codeReader {
	host := r.operand(args, "BbcDEeFIiJLlmOopQRSWw")
	r.words(args[:min(host+1, len(args))], bareWord)
	if host+1 >= len(args) {
		return codeReader{shell: "ssh", remote: true}
	}
	was := r.quotedOnly
	r.quotedOnly = "ssh"
	r.words(args[host+1:], bareWords)
	r.quotedOnly = was
	if name, _ := r.literalWord(args[host+1]); shells[path.Base(name)] {
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

// runFind rewrites find's words, and the commands after -exec and its kin.
func (r *rewriter) runFind(args []*syntax.Word, remote bool) {
	for i := 0; i < len(args); {
		r.word(args[i], bareWords)
		lit, _ := r.literalWord(args[i])
		i++
		switch lit {
		case "-exec", "-execdir", "-ok", "-okdir":
		default:
			continue
		}
		end := i
		for end < len(args) {
			if lit, _ := r.literalWord(args[end]); lit == ";" || lit == "+" {
				break
			}
			end++
		}
		r.run(args[i:end], remote)
		i = end
	}
}

// runWrapper finds the command among the wrapper's words.
func (r *rewriter) runWrapper(args []*syntax.Word, valued string, operands int, name string, remote bool) codeReader {
	i := r.operand(args, valued)
	if name == "command" && r.onlyLooks(args[1:min(i, len(args))]) {
		r.words(args, bareWords)
		return codeReader{}
	}
	for i < len(args) && (operands > 0 || name == "env" && r.isAssignment(args[i]) || name == "sudo" && r.isAssignment(args[i])) {
		if operands > 0 {
			operands--
		}
		i++
	}
	if name == "env" {
		for _, w := range args[1:min(i, len(args))] {
			switch lit, _ := r.literalWord(w); {
			case lit == "-" || lit == "-i" || lit == "--ignore-environment":
				remote = true
			}
			if p := r.prefix(w); strings.HasPrefix(p, "-S") || strings.HasPrefix(p, "--split-string") {
				if m, ok := r.has(w); ok {
					r.errorAt(m, "", "would become a command line of env -S")
				}
			}
		}
	}
	if lit, _ := r.literalWord(args[min(i, len(args)-1)]); name == "flock" && lit == "-c" && i+1 < len(args) {
		r.words(args[:i+1], bareWords)
		r.code(args[i+1], remote, name)
		return codeReader{}
	}
	r.words(args[:min(i, len(args))], bareWord) // a second word might be the command
	if i >= len(args) {
		return codeReader{}
	}
	if name == "xargs" && r.replacesInCode(args, i) {
		r.run(args[i:], remote)
		return codeReader{shell: name, remote: true}
	}
	if name == "parallel" { // joins its words and gives them to a shell
		was := r.quotedOnly
		r.quotedOnly = name
		r.words(args[i:], bareWords)
		r.quotedOnly = was
		return codeReader{}
	}
	return r.run(args[i:], remote)
}

// onlyLooks: command -v and -V run nothing.
func (r *rewriter) onlyLooks(options []*syntax.Word) bool {
	return slices.ContainsFunc(options, func(w *syntax.Word) bool {
		lit, _ := r.literalWord(w)
		return strings.ContainsAny(lit, "vV")
	})
}

// replacesInCode: xargs -I{} sh -c '… {} …' puts its input into code.
func (r *rewriter) replacesInCode(args []*syntax.Word, command int) bool {
	replace := ""
	for i := 1; i < command; i++ {
		lit, _ := r.literalWord(args[i])
		switch {
		case lit == "-I" && i+1 < command:
			replace, _ = r.literalWord(args[i+1])
		case strings.HasPrefix(lit, "-I"):
			replace = lit[2:]
		case lit == "-i":
			replace = "{}"
		}
	}
	if name, _ := r.literalWord(args[command]); replace == "" || !shells[path.Base(name)] {
		return false
	}
	code, _ := r.shellCode(args[command:])
	src := args[command+code]
	return code > 0 && strings.Contains(r.src[span1(src):int(src.End().Offset())], replace)
}

func (r *rewriter) isAssignment(w *syntax.Word) bool {
	src := strings.TrimLeft(r.src[span1(w):int(w.End().Offset())], `"'`)
	end := nameEnd(src, 0)
	return end > 0 && strings.HasPrefix(src[end:], "=")
}

// codeWithin finds `sh -c` or `python -c` among the words of a command that we
// know nothing about, such as docker exec or a wrapper of the user's own.
func (r *rewriter) codeWithin(args []*syntax.Word) int {
	for i := 1; i+1 < len(args); i++ {
		lit, _ := r.literalWord(args[i])
		name := path.Base(lit)
		if shells[name] {
			if code, _ := r.shellCode(args[i:]); code > 0 {
				return i
			}
		}
		if n := languageOf(name); n >= 0 && !languages[n].program {
			option := r.prefix(args[i+1])
			if len(option) > 1 && option[0] == '-' && option[1] != '-' && isCodeOption(option, languages[n].code, languages[n].valued) {
				return i
			}
		}
	}
	return 0
}

func languageOf(name string) int {
	for i := range languages {
		if languages[i].re.MatchString(name) {
			return i
		}
	}
	return -1
}

// runLanguage rewrites the words of an interpreter; its code may hold numbers
// only.
func (r *rewriter) runLanguage(index int, args []*syntax.Word) codeReader {
	lang := &languages[index]
	foreign := func(w *syntax.Word) {
		was := r.foreign
		r.foreign = lang.name
		r.word(w, bareWord)
		r.foreign = was
	}
	r.word(args[0], bareWords)
	fromFile, hasCode, operand, dash := false, false, false, false
	for i := 1; i < len(args); i++ {
		w := args[i]
		lit, plain := r.literalWord(w)
		p := lit
		if !plain {
			p = r.prefix(w)
		}
		long, _, attached := strings.Cut(p, "=")
		switch {
		case operand || hasCode && !lang.program && !strings.HasPrefix(p, "-"):
			operand = true
			r.word(w, bareWords)
		case plain && slices.Contains(lang.two, lit):
			r.words(args[i:min(i+3, len(args))], bareWord)
			i += 2
		case lang.long != "" && slices.Contains(strings.Fields(lang.long), long):
			hasCode = true
			if attached || !plain {
				foreign(w)
			} else if i++; i < len(args) {
				foreign(args[i])
			}
		case len(p) > 1 && p[0] == '-' && p[1] != '-' && lang.code != "" && isCodeOption(p, lang.code, lang.valued):
			hasCode = true
			if !plain || strings.IndexByte(lang.code, p[len(p)-1]) < 0 {
				foreign(w)
			} else if i++; i < len(args) {
				foreign(args[i])
			}
		case len(p) > 1 && p[0] == '-':
			fromFile = fromFile || strings.HasPrefix(p, "-f") || p == "--file" || p == "--from-file"
			r.word(w, bareWord)
			if plain && len(lit) == 2 && strings.Contains(lang.valued, lit[1:]) {
				if i++; i < len(args) {
					r.word(args[i], bareWord) // a second word might be the code
				}
			}
		case plain && lang.name == "jq" && yqCommands[lit]:
			r.word(w, bareWord)
		case lang.program && !fromFile && !hasCode:
			hasCode, operand = true, true
			foreign(w)
		default:
			operand, dash = true, p == "-"
			if m, ok := r.has(w); ok && lang.stdin && !hasCode {
				r.errorAt(m, "", "would choose the program that %s runs", lang.name)
				return codeReader{}
			}
			r.word(w, bareWords)
		}
	}
	if lang.stdin && !hasCode && (!operand || dash || lang.name == "bc") {
		return codeReader{language: lang.name}
	}
	return codeReader{}
}

// isCodeOption: -c, -ne, -e'code'; the letters of an option's own word do not
// count.
func isCodeOption(option, code, valued string) bool {
	for i := 1; i < len(option); i++ {
		if strings.IndexByte(code, option[i]) >= 0 {
			return true
		}
		if strings.IndexByte(valued, option[i]) >= 0 || !isNameByte(option[i]) {
			return false
		}
	}
	return false
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

// code rewrites a word that is shell code.
func (r *rewriter) code(w *syntax.Word, remote bool, of string) {
	m, ok := r.has(w)
	if !ok {
		r.word(w, bareWords)
		return
	}
	if remote || r.quotedOnly != "" {
		was := r.quotedOnly
		r.quotedOnly = of
		r.word(w, bareWords)
		r.quotedOnly = was
		return
	}
	r.coded = true
	in := r.child()
	before := len(r.edits)
	for _, p := range w.Parts {
		in.addPart(r, p, inWord)
	}
	r.within(w, func(int, mark) {})
	r.edits = r.edits[:before]
	text, ok := in.finish(r)
	if !ok {
		return
	}
	if r.err == nil && strings.Contains(r.src[span1(w):int(w.End().Offset())], opaqueMark) {
		r.errorAt(m, "", "stands in code that holds a control character")
	}
	start, end := span(w)
	r.edit(start, end, in.requote(text))
}

// stdinWord is a here-string that a shell runs.
func (r *rewriter) stdinWord(w *syntax.Word, code codeReader) {
	if code.language != "" {
		was := r.foreign
		r.foreign = code.language
		r.word(w, bareWord)
		r.foreign = was
		return
	}
	r.code(w, code.remote, code.shell)
}

// hereCode is a here-document that a shell or another interpreter runs.
func (r *rewriter) hereCode(rd *syntax.Redirect, code codeReader) {
	if code.language != "" || code.remote || r.quotedOnly != "" {
		wasShell, wasForeign := r.quotedOnly, r.foreign
		if r.foreign = code.language; code.shell != "" {
			r.quotedOnly = code.shell
		}
		r.hereText(rd)
		r.quotedOnly, r.foreign = wasShell, wasForeign
		return
	}
	in := r.child()
	start, end := span(rd.Hdoc)
	before := len(r.edits)
	literal := r.literalDelimiter(rd)
	if literal {
		for i := start; i < end; i++ {
			in.copyByte(r, i)
		}
	} else {
		for _, p := range rd.Hdoc.Parts {
			in.addPart(r, p, inHere)
		}
	}
	r.within(rd.Hdoc, func(int, mark) {})
	r.edits = r.edits[:before]
	text, ok := in.finish(r)
	if !ok {
		return
	}
	if !literal {
		pieces := in.pieces(text)
		for i := range pieces {
			if i%2 == 0 {
				pieces[i] = escapeHere(pieces[i])
			}
		}
		text = strings.Join(pieces, "")
	}
	r.edit(start, end, text)
}

// codeText is code inside a word: what the inner shell will read, where our
// values stand in it, and expansions of the outer shell, whose text we cannot
// know and which stand as marks of their own.
type codeText struct {
	buf    []byte
	marks  []mark
	opaque []opaque
}

type opaque struct {
	src   string
	quote bool
}

const opaqueMark = "\x01"

// context is where a piece of code stands in the outer source.
type context uint8

const (
	inWord context = iota
	inDouble
	inHere
)

// protected are the bytes before which a backslash is not itself.
func (c context) protected() string {
	if c == inDouble {
		return "$`\"\\\n"
	}
	return "$`\\\n"
}

func (r *rewriter) child() *codeText { return &codeText{} }

// copyByte takes one byte of the outer source, and a mark with its bytes.
func (c *codeText) copyByte(r *rewriter, i int) {
	for _, m := range r.marks {
		if m.start == i {
			c.marks = append(c.marks, mark{len(c.buf), len(c.buf) + m.end - m.start, m.slot})
		}
	}
	c.buf = append(c.buf, r.src[i])
}

// addPart takes a part of a word, or of a here-document's body.
func (c *codeText) addPart(r *rewriter, p syntax.WordPart, in context) {
	start, end := span(p)
	switch p := p.(type) {
	case *syntax.Lit:
		for i := start; i < end; i++ {
			if r.src[i] == '\\' && i+1 < end && (in == inWord || strings.IndexByte(in.protected(), r.src[i+1]) >= 0) {
				if i++; r.src[i] == '\n' {
					continue
				}
			}
			c.copyByte(r, i)
		}
		return
	case *syntax.SglQuoted:
		if !p.Dollar {
			for i := start + 1; i < end-1; i++ {
				c.copyByte(r, i)
			}
			return
		}
	case *syntax.DblQuoted:
		for _, q := range p.Parts {
			c.addPart(r, q, inDouble)
		}
		return
	case *syntax.ParamExp:
		for _, m := range r.marks {
			if m.start == start && m.end == end {
				for i := start; i < end; i++ {
					c.copyByte(r, i)
				}
				return
			}
		}
	}
	// What such an expansion comes to is code, so data in it must be quoted.
	before, at, was := len(r.edits), quoted, r.quotedOnly
	if in == inWord {
		at = bareWord
	}
	r.quotedOnly = "a shell"
	r.part(p, at)
	r.quotedOnly = was
	c.buf = append(c.buf, opaqueMark+strconv.Itoa(len(c.opaque))+opaqueMark...)
	c.opaque = append(c.opaque, opaque{r.take(before, start, end), in != inWord})
}

// finish rewrites the code.
func (c *codeText) finish(r *rewriter) (string, bool) {
	in := &rewriter{plan: r.plan, src: string(c.buf), marks: c.marks, seen: make([]bool, len(c.marks)),
		depth: r.depth + 1, quotedOnly: r.quotedOnly, foreign: r.foreign}
	if len(c.marks) == 0 {
		return in.src, true
	}
	if in.depth > maxCodeNesting {
		r.errorAt(c.marks[0], "", "stands in code nested more than %d deep", maxCodeNesting)
		return "", false
	}
	f, err := parseShell(in.src)
	if err != nil {
		r.errorAt(c.marks[0], "mend it, or use |raw if what you write is meant to become code",
			"stands in code that is not valid shell: %v", err)
		return "", false
	}
	text := in.file(f)
	if r.err == nil {
		r.err = in.err
	}
	return text, in.err == nil
}

// pieces splits rewritten code into literal text and, at odd places, the
// expansions of the outer shell.
func (c *codeText) pieces(text string) []string {
	parts := strings.Split(text, opaqueMark)
	for i := 1; i < len(parts); i += 2 {
		if n, err := strconv.Atoi(parts[i]); err == nil && n < len(c.opaque) {
			parts[i] = c.opaque[n].src
		}
	}
	return parts
}

// requote makes one word of the outer shell out of rewritten code.
func (c *codeText) requote(text string) string {
	var b strings.Builder
	for i, p := range strings.Split(text, opaqueMark) {
		if i%2 == 0 {
			if p != "" {
				b.WriteString(shellQuote(p))
			}
			continue
		}
		n, err := strconv.Atoi(p)
		if err != nil || n >= len(c.opaque) {
			continue
		}
		if c.opaque[n].quote {
			b.WriteString(`"` + c.opaque[n].src + `"`)
		} else {
			b.WriteString(c.opaque[n].src)
		}
	}
	if b.Len() == 0 {
		return "''"
	}
	return b.String()
}
