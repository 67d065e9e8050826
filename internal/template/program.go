package template

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Some options of well-known programs take a command, and some variables of the
// environment name a program that others run. Data is neither.

// commandOptions are the options, by program, behind which a command stands or
// what can name one.
var commandOptions = map[string][]string{
	"ssh": {"-o", "-F"}, "scp": {"-o", "-S", "-F"}, "sftp": {"-o", "-S", "-F"},
	"rsync": {"-e", "--rsh", "--rsync-path"},
	"tar": {"-I", "-F", "--use-compress-program", "--to-command", "--checkpoint-action", "--info-script",
		"--new-volume-script", "--rsh-command", "--rmt-command"},
	"sort": {"--compress-program"}, "zip": {"-TT", "--unzip-command"}, "man": {"-P", "--pager", "-H"},
	"nc": {"-e", "-c"}, "ncat": {"-e", "-c", "--exec", "--sh-exec"}, "curl": {"-K", "--config"}, "wget": {"--use-askpass"},
	"bide": {"--fallback", "--command"},
	"make": {"--eval", "-f", "--file"}, "gmake": {"--eval", "-f", "--file"}, "at": {"-f"},
	"git": {"--exec", "--exec-path", "--upload-pack", "--receive-pack", "--open-files-in-pager", "--extcmd", "--config-env",
		"--env-filter", "--tree-filter", "--index-filter", "--parent-filter", "--msg-filter", "--commit-filter", "--tag-name-filter"},
}

// commandVars are the variables that name a program, or hold code or options of one.
var commandVars = wordSet(`PATH SHELL ENV BASH_ENV SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND IFS LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH
	GIT_SSH GIT_SSH_COMMAND GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_ASKPASS GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND GIT_EXEC_PATH GIT_CONFIG_PARAMETERS SSH_ASKPASS SUDO_ASKPASS
	EDITOR VISUAL PAGER MANPAGER LESSOPEN LESSCLOSE BROWSER RSYNC_RSH TAR_OPTIONS MAKEFLAGS GNUMAKEFLAGS
	NODE_OPTIONS NODE_PATH PYTHONSTARTUP PYTHONPATH PYTHONHOME PERL5OPT PERL5LIB PERL5DB RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS`)

// commandKeys are the last parts of the keys of git's configuration that name a
// program; all keys of an alias do.
var commandKeys = wordSet(`pager editor sshcommand askpass fsmonitor hookspath helper cmd command driver textconv clean smudge process program external gitproxy uploadpack receivepack path trustexitcode diffcommand`)

// commandData refuses data that would be a command by way of an option or an
// operand of a program, and reports whether it did.
func (r *rewriter) commandData(name string, args []*syntax.Word) bool {
	refuse := func(w *syntax.Word, what string) bool {
		m, ok := r.has(w)
		if ok {
			r.errorAt(m, "", "would become a command of %s", what)
		}
		return ok
	}
	if options := commandOptions[name]; options != nil {
		for i := 1; i < len(args); i++ {
			option, behind := r.option(args[i], options)
			if option == "" {
				continue
			}
			w := args[i]
			if behind && i+1 < len(args) {
				i++
				w = args[i]
			}
			if refuse(w, name+" "+option) {
				return true
			}
		}
	}
	switch name {
	case "git":
		return r.gitCommand(args, refuse)
	case "socat":
		for _, w := range args[1:] {
			if _, data := r.has(w); data && r.prefix(w) == "" && refuse(w, name) {
				return true
			}
		}
	}
	return false
}

// option tells whether a word is one of some options, or begins with one, and
// whether its value is behind it.
func (r *rewriter) option(w *syntax.Word, options []string) (option string, behind bool) {
	lit, plain := r.literalWord(w)
	text := lit
	if !plain {
		text = r.prefix(w)
	}
	long, _, attached := strings.Cut(text, "=")
	for _, o := range options {
		switch {
		case plain && text == o, len(o) == 2 && plain && takesValue(text, o[1:]):
			return o, true
		case strings.HasPrefix(o, "--") && attached && long == o:
			return o, false
		case len(o) == 2 && !plain && strings.HasPrefix(text, o):
			return o, false
		}
	}
	return "", false
}

// gitCommand refuses data in git's configuration where that names a program, and
// in the commands that some of its commands run.
func (r *rewriter) gitCommand(args []*syntax.Word, refuse func(*syntax.Word, string) bool) bool {
	i := 1
	for ; i < len(args); i++ {
		lit, plain := r.literalWord(args[i])
		if !plain || !strings.HasPrefix(lit, "-") {
			break
		}
		if lit == "-C" {
			i++
		}
		if lit == "-c" && i+1 < len(args) {
			i++
			key, _, known := strings.Cut(r.prefix(args[i]), "=")
			if (!known || isCommandKey(key)) && refuse(args[i], "git -c") {
				return true
			}
		}
	}
	if i >= len(args) {
		return false
	}
	words := make([]string, 0, 2)
	rest := args[i:]
	for len(rest) > 0 && len(words) < 2 {
		lit, plain := r.literalWord(rest[0])
		if !plain {
			break
		}
		rest = rest[1:]
		if !strings.HasPrefix(lit, "-") {
			words = append(words, lit)
		}
	}
	all := false
	switch command := strings.Join(words, " "); {
	case len(words) > 0 && words[0] == "rebase":
		for j := i + 1; j+1 < len(args); j++ {
			if o, behind := r.option(args[j], []string{"-x"}); o != "" && behind && refuse(args[j+1], "git rebase -x") {
				return true
			}
		}
	case command == "bisect run", command == "submodule foreach", len(words) > 0 && words[0] == "filter-branch":
		all = true
	case len(words) == 2 && words[0] == "config":
		all = isCommandKey(words[1])
	case len(words) == 1 && words[0] == "config":
		return len(rest) > 1 && refuse(rest[0], "git config")
	}
	return all && slices.ContainsFunc(rest, func(w *syntax.Word) bool { return refuse(w, "git "+strings.Join(words, " ")) })
}

func isCommandKey(key string) bool {
	key = strings.ToLower(key)
	return strings.HasPrefix(key, "alias.") || commandKeys(key[strings.LastIndexByte(key, '.')+1:])
}

// ChoosesProgram reports whether a variable of the environment names a program that
// others run, or holds code or options of one: no data may be its value.
func ChoosesProgram(name string) bool {
	return commandVars(name) || strings.HasPrefix(name, "GIT_CONFIG_") || strings.HasPrefix(name, "BASH_FUNC_")
}

// commandVar refuses data as the value of a variable that names a program.
func (r *rewriter) commandVar(name string, value syntax.Node) bool {
	if !ChoosesProgram(name) {
		return false
	}
	m, ok := r.has(value)
	if ok {
		r.errorAt(m, "", "would choose what programs run, by way of the variable %s", name)
	}
	return ok
}

// assignedName is the name of a word NAME=…, or "".
func (r *rewriter) assignedName(w *syntax.Word) string {
	text := r.prefix(w)
	if end := nameEnd(text, 0); end > 0 && strings.HasPrefix(text[end:], "=") {
		return text[:end]
	}
	return ""
}
