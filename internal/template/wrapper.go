package template

import (
	"mvdan.cc/sh/v3/syntax"
	"path"
	"slices"
	"strings"
)

// runFind rewrites find's words, and the commands after -exec and its kin.
func (r *rewriter) runFind(args []*syntax.Word, remote bool) {
	own := []*syntax.Word{}
	for i := 0; i < len(args); {
		r.word(args[i], bareWords)
		lit, _ := r.literalWord(args[i])
		own = append(own, args[i])
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
	r.guard(own)
}

// runWrapper finds the command among the wrapper's words.
func (r *rewriter) runWrapper(args []*syntax.Word, valued string, operands int, name string, remote bool) codeReader {
	i := r.operand(args, valued)
	if name == "command" && r.onlyLooks(args[1:min(i, len(args))]) {
		r.guard(args)
		r.words(args, bareWords)
		return codeReader{}
	}
	for i < len(args) && (operands > 0 || name == "env" && r.isAssignment(args[i]) || name == "sudo" && r.isAssignment(args[i])) {
		if operands > 0 {
			operands--
		}
		i++
	}
	if name == "env" || name == "sudo" {
		for _, w := range args[1:min(i, len(args))] {
			if r.commandVar(r.assignedName(w), w) {
				return codeReader{}
			}
		}
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
		r.guard(args[:i+1])
		r.words(args[:i+1], bareWords)
		r.code(args[i+1], remote, name)
		return codeReader{}
	}
	r.guard(args[:min(i, len(args))])
	r.words(args[:min(i, len(args))], bareWord) // a second word might be the command
	if i >= len(args) {
		return codeReader{}
	}
	if name == "xargs" && r.replacesInCode(args, i) {
		r.run(args[i:], remote)
		return codeReader{shell: name, remote: true}
	}
	if name == "parallel" { // joins its words and gives them to a shell
		r.guard(args[i:])
		was := r.quotedOnly
		r.quotedOnly = name
		r.words(args[i:], bareWords)
		r.quotedOnly = was
		return codeReader{}
	}
	return r.run(args[i:], remote)
}

// bideSwitches are the options of bide exec and bide batch that take no word.
var bideSwitches = wordSet("-q --quiet -h --help --json --skip-permissions --dry-run --fail-fast -k --keep-order")

// runBide finds the command that bide exec or bide batch runs: behind --, else that of exec
// is its first operand, and that of batch is before :::.
func (r *rewriter) runBide(args []*syntax.Word, remote bool) codeReader {
	at := func(i int) string {
		if i >= len(args) {
			return ""
		}
		lit, _ := r.literalWord(args[i])
		return lit
	}
	if r.commandData("bide", args) {
		return codeReader{}
	}
	sub := at(1)
	from, to := len(args), len(args)
	for i := 2; (sub == "exec" || sub == "batch") && i < len(args); i++ {
		lit := at(i)
		if lit == "--" {
			from = i + 1
			break
		}
		if strings.HasPrefix(r.prefix(args[i]), "-") {
			if lit != "" && !strings.Contains(lit, "=") && !bideSwitches(lit) {
				i++
			}
			continue
		}
		if sub == "exec" || slices.ContainsFunc(args[i:], func(w *syntax.Word) bool { lit, _ := r.literalWord(w); return lit == ":::" }) {
			from = min(from, i)
			break
		}
	}
	for i := from; i < len(args) && sub == "batch"; i++ {
		if at(i) == ":::" {
			to = i
			break
		}
	}
	r.guard(args[:from])
	r.words(args[:from], bareWord)
	r.words(args[to:], bareWords)
	if from == to {
		return codeReader{}
	}
	if kind, _, ok := strings.Cut(r.prefix(args[from]), ":"); ok && from+1 == to {
		if m, data := r.has(args[from]); data && kind == "shell" {
			r.errorAt(m, "", "would become code of bide %s", sub)
			return codeReader{}
		}
		r.words(args[from:to], bareWord) // a prompt, or a text that the shell guards itself
		return codeReader{}
	}
	return r.run(args[from:to], remote)
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
	if name, _ := r.literalWord(args[command]); replace == "" || !shells(path.Base(name)) {
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
		if shells(name) {
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
