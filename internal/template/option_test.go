package template_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/template"
)

// In each of these places a value that begins with a dash would be an option.
var optionPlaces = []string{
	"wc -l ${x}", `wc -l "${x}"`, `wc -l '${x}'`, "wc -l a ${x} b", `wc -l "a b" "${x}"`, "cat pre ${x}", `cat "${empty}${x}"`, `cat ${empty}${x}`, `cat "$nothing${x}"`, `cat $nothing"${x}"`,
	`git ls-remote "${x}" ./repo`, "git log ${x}", "git -C dir log ${x}", `git commit -m -m "${x}"`, `git commit -m -- "${x}"`, "ssh ${x} true", `ssh "${x}"`, "ssh -p 22 ${x}",
	"find ${x} -name a", "find -- ${x}", "tar ${x} a", "rsync a ${x}", "sort ${x}", "cd ${x}", "rm -rf ${x}", "./run.sh ${x}", "$CMD a ${x}", `"$CMD" "${x}"`,
	"timeout 5 wc ${x}", "timeout ${x} wc a", "env A=1 ls ${x}", "sudo ls ${x}", "xargs ls ${x}", "nice ls ${x}", "npm run test -- ${x}", "kubectl exec pod -- ls ${x}", "docker run image ls ${x}",
	"awk '{print}' ${x}", "sed p ${x}", "python3 script.py ${x}", "perl -e 1 ${x}", "node -e 1 ${x}", "jq . ${x}", "grep ${x} file", "grep -r ${x}", "sh script.sh ${x}",
	`y=$(ls ${x})`, "y=`ls ${x}`", "(ls ${x})", "! ls ${x}", "if ls ${x}; then :; fi", "true && ls ${x}", "true | ls ${x}", "ls ${x} > out", "A=1 ls ${x}", "f() { ls ${x}; }; f",
	"sh -c 'ls ${x}'", `sh -c "ls ${x}"`, "eval 'ls ${x}'", "sh <<EOF\nls ${x}\nEOF", "ssh host ls ${x|sh}", `ssh host "ls ${x|sh}"`, "echo ls ${x|sh} | ssh host",
	`ls "${y:-${x}}"`, `ls ${y:-${x}}`, `find . -exec ls ${x} \;`, "command ls ${x}", "exec ls ${x}", "vim ${x}", `printf "${x}"`, "parallel ls ${x|sh} ::: a",
	"flock ${x} true", "git commit -m ${two}", "grep -e ${two} file",
}

// In these it is none, or is taken all the same.
var dashPlaces = []string{
	"wc -l -- ${x}", `wc -l -- "${x}"`, "rm -rf -- a ${x}", "git log -- ${x}", "npm run test -- -- ${x}", "ssh -- ${x}", "timeout 5 wc -- ${x}",
	"wc -l ./${x}", `wc -l "./${x}"`, "wc --files=${x}", "cut -d${x}", "wc -l ${x|option}", `wc -l "${x|option}"`, `ssh host "ls ${x|option|sh}"`, "wc ${x|sh|option}",
	"for i in ${x}; do :; done", `for i in "${x}"; do :; done`, `[ "${x}" = a ]`, `[ -n "${x}" ]`, "test ${x} = a", `[[ ${x} = a ]]`, "echo a ${x}", `echo "a ${x}"`, "printf '%s' ${x}", "case ${x} in -*) ;; esac", "true ${x}",
	"y=${x}", `export Y=${x}`, "a=(${x})", ": ${x}", "f() { :; }; f ${x}", "cat <<EOF\n${x}\nEOF", `cat <<< "${x}"`, "echo > ${x}", "env Y=${x} ls", "sh -c 'ls' _ ${x}", "python3 -c 1 ${x}",
	`git commit -m "${x}"`, `git commit -am "${x}"`, `git -C d commit --message "${x}"`, `grep -e "${x}" f`, `grep -re "${x}" f`, `jq --arg name "${x}" .`, `awk -v n="${x}" 1`, `awk -v "${x}" 1`, "find . -name ${x}", `gh pr create --title "${x}" --body "${x}"`, `curl -d "${x}" url`,
}

func optionScope(x string) vars {
	return vars{data: map[string]any{"x": x, "empty": "", "two": "a " + x}}
}

func TestNoWordOfDataIsAnOption(t *testing.T) {
	for _, src := range optionPlaces {
		for _, x := range []string{"--upload-pack=touch pwned", "-oProxyCommand=touch", "-", "--", "-e", "-1e", ". -maxdepth", "a\t-n", " -x", "\n-x"} {
			blank := strings.ContainsAny(x, " \t\n")
			if first := strings.Fields(x)[0]; blank && !strings.HasPrefix(x, "-") && (strings.ContainsAny(src, `"'`) || strings.Contains(src, "|sh") || strings.HasPrefix(first, "-") == false && strings.Contains(src, "timeout ${x}")) {
				continue // one word there
			}
			if blank && (strings.Contains(src, "timeout ${x}") || strings.Contains(src, "watch") || strings.Contains(src, "flock")) {
				continue
			}
			c, err := shellOf(t, src, optionScope(x))
			if err == nil {
				t.Errorf("%q with %q: taken as %q %q", src, x, c.Line(), c.Env)
				continue
			}
			if !strings.Contains(err.Error(), "|option}") && !strings.Contains(err.Error(), "|option:-") || !strings.Contains(err.Error(), "./") {
				t.Errorf("%q with %q: no mend in %v", src, x, err)
			}
		}
		for _, x := range []string{"a", "a-b", "-5", "-1.5", "5", "a b"} {
			if _, err := shellOf(t, src, vars{data: map[string]any{"x": x, "empty": "", "two": "a b"}}); err != nil {
				t.Errorf("%q with %q: %v", src, x, err)
			}
		}
	}
	for _, src := range dashPlaces {
		for _, x := range []string{"--upload-pack=touch", "-", "-n", "--"} {
			if _, err := shellOf(t, src, optionScope(x)); err != nil {
				t.Errorf("%q with %q: %v", src, x, err)
			}
		}
	}
}

// echo takes few words for options, and only those that stand first.
func TestAnItemIsNoOptionOfEcho(t *testing.T) {
	for _, src := range []string{"echo ${x}", `echo "${x}"`, "echo -n ${x}", "echo ${empty} ${x}", `echo $V "${x}"`, "/bin/echo ${x}", "nice echo ${x}", "echo ${x} a", "sh -c 'echo ${x}'", "true && echo ${x} > f"} {
		for _, x := range []string{"-n", "-e", "-neE", "--help", "-n a", "a"} {
			refused := x != "a" && !(x == "-n a" && strings.Contains(src, `"`))
			_, err := shellOf(t, src, optionScope(x))
			if refused && (err == nil || !strings.Contains(err.Error(), "write printf '%s\\n' in place of echo")) || !refused && err != nil {
				t.Errorf("%q with %q: %v", src, x, err)
			}
		}
	}
	for _, src := range []string{"echo ${x}", `echo "${x}"`} {
		for _, x := range []string{"-", "--", "-x", "-nx", "---", "a -n", "-5"} {
			if _, err := shellOf(t, src, optionScope(x)); err != nil {
				t.Errorf("%q with %q: %v", src, x, err)
			}
		}
	}
	for _, src := range []string{"echo a ${x}", "echo a${x}", "echo ${two} ${x}", "echo ${a} ${x}", "echo -x ${x}", "echo ${x|option}"} {
		s := optionScope("-n")
		s.data["a"] = "a"
		s.data["two"] = "a b"
		if _, err := shellOf(t, src, s); err != nil {
			t.Errorf("%q: %v", src, err)
		}
	}
	if _, err := shellOf(t, "nice true ${x}", optionScope("--help")); err == nil {
		t.Error("--help is an option of the program true")
	}
}

func TestAListIsOneWordAnElement(t *testing.T) {
	s := data([]any{"a b", "c", "-d"})
	if _, err := shellOf(t, "ls ${x}", s); err == nil || !strings.Contains(err.Error(), `"-d"`) {
		t.Errorf("an option in a list: %v", err)
	}
	c, err := shellOf(t, "ls -- ${x}", s)
	if want := []string{"ls", "--", "a b", "c", "-d"}; err != nil || strings.Join(c.Argv, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, %v", c.Argv, err)
	}
	c, err = shellOf(t, "for i in ${x} end; do printf '<%s>' \"$i\"; done", s)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, "sh", c); err != nil || out != "<a b><c><-d><end>" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestTestTakesNoVariableName(t *testing.T) {
	for _, src := range []string{"test ${x}", "[ ${x} ]"} {
		if c, err := shellOf(t, src, data("-v a[$(touch pwned)]")); err == nil {
			t.Errorf("%q became %q", src, c.Line())
		}
	}
}

// commandPlaces are places where the word of data would be a command, or would
// choose one, whatever it is.
var commandPlaces = []string{
	"git -c ${x} log", "git -c core.pager=${x} log", "git -c alias.${x} log", "git -c alias.l=${x} l", "git config core.sshCommand ${x}", `git config --global alias.x "!${x}"`, "git config ${x} y",
	"git rebase -x ${x} main", "git rebase -ix ${x}", "git rebase --exec ${x}", "git rebase --exec=${x}", "git bisect run ${x}", "git submodule foreach ${x}", "git filter-branch --msg-filter ${x}", "git --exec-path=${x} log", "git fetch --upload-pack=${x} a",
	"ssh -o ${x} host", "ssh -oProxyCommand=${x} host true", "ssh -p 22 -o ProxyCommand=${x} host true", "scp -o ${x} a b", "sftp -S ${x} a", "rsync -e ${x} a b", "rsync -ave ${x} a b", `rsync --rsh="${x}" a b`,
	"tar --to-command=${x} -xf a", "tar -I ${x} -xf a", "tar --use-compress-program ${x} -xf a", "sort --compress-program=${x} a", "man -P ${x} ls", "ncat --exec ${x} h 1", "socat ${x} -", "make --eval=${x}", "make -f ${x}",
	"GIT_SSH_COMMAND=${x} git fetch", `PAGER="${x}" git log`, "LD_PRELOAD=./${x} ls", "PATH=${x}:$PATH ls", "export PATH=${x}", "PATH=${x}", "BASH_ENV=${x} bash a", "env NODE_OPTIONS=${x} node a", "sudo LD_PRELOAD=${x} ls", "export A=1 EDITOR=${x}",
	"bide exec ${x}", "bide exec -q -- ${x}", "bide exec -q --attempts 2 ${x} a", "bide exec shell:${x}", `bide exec -- "shell:a ${x}"`, "bide exec --fallback ${x} -- false", "bide exec --fallback=${x} false", "bide batch --command ${x} ::: a", "bide batch -- ${x} ::: a", "bide batch -k ${x} {} ::: a", "bide batch *.go -- ${x}",
	"npx ${x}", "npx -p a ${x}", "entr ${x}", "expect -c ${x}", "gnuplot -e ${x}", `sqlite3 db "${x}"`, "sqlite3 db 'select ${x}'", "tclsh ${x}", "xargs ${x}", "timeout 5 ${x}", "sudo ${x}", "env ${x}", "find . -exec ${x} ;",
}

// valuePlaces are beside them, and take what is no option.
var valuePlaces = []string{
	`git -c user.name="${x}" log`, `git config user.name "${x}"`, "git cherry-pick -x ${x}", "git clean -fdx ${x}", "git rebase ${x}", `git rebase -x "make test" ${x}`, "git bisect good ${x}", "git fetch origin ${x}", "git submodule add ${x}",
	"ssh -o StrictHostKeyChecking=no ${x} true", "ssh -p ${x} host true", "scp -P 22 a ${x}", "rsync -ae ssh a ${x}", "rsync --rsh=ssh ${x} b", "tar -czf ${x} .", "tar -I zstd -cf ${x} .", "sort -k ${x} a", "socat TCP:${x}:80 -", "make ${x}", "make -C ${x} all", "make -f a.mk ${x}",
	"NAME=${x} git fetch", "GIT_AUTHOR_NAME=${x} git commit", "export NAME=${x}", "env NAME=${x} node a", "sudo NAME=${x} ls", "npx eslint ${x}", "bide exec -q --attempts 3 curl -o ${x} url", "bide exec --attempts ${x} -- true", `bide exec -- "claude: mend ${x}"`, "bide exec -- cat ${x}", "bide batch cat {} ::: ${x}", "bide batch -j ${x} -- cat {} ::: a", "bide run ${x}", `sqlite3 "${x}" 'select 1'`, "curl -o ${x} url",
}

func TestDataIsNoCommand(t *testing.T) {
	for _, src := range commandPlaces {
		for _, x := range []string{"touch", "./pwn", "a=b"} {
			if c, err := shellOf(t, src, data(x)); err == nil {
				t.Errorf("%q with %q: taken as %q %q", src, x, c.Line(), c.Env)
			} else if strings.Contains(src, "${x}") && !strings.Contains(err.Error(), "${x}") {
				t.Errorf("%q: %v does not name it", src, err)
			}
		}
		if _, err := shellOf(t, src, vars{trusted: map[string]any{"x": "touch"}}); err != nil {
			t.Errorf("%q of the author: %v", src, err)
		}
		if _, err := shellOf(t, strings.ReplaceAll(src, "${x}", "${x|raw}"), data("touch")); err != nil {
			t.Errorf("%q |raw: %v", src, err)
		}
	}
	for _, src := range valuePlaces {
		if _, err := shellOf(t, src, data("a")); err != nil {
			t.Errorf("%q: %v", src, err)
		}
	}
	for _, x := range []string{"SHELL=./pwn", "X=$(shell touch pwned)", "all SHELL=./pwn"} {
		if _, err := shellOf(t, "make ${x}", data(x)); err == nil {
			t.Errorf("make with %q is taken", x)
		}
	}
}

// programs that run code when data becomes an option of them, with the values
// that make them do it.
var programs = []struct{ src, value string }{
	{"find %s", ". -maxdepth 0 -exec touch pwned ;"},
	{"find . %s", "-maxdepth 0 -exec touch pwned ;"},
	{"git ls-remote %s ./repo", "--upload-pack=touch pwned;:"},
	{"git grep %s a", "--open-files-in-pager=touch pwned;"},
	{"ssh %s", "-oProxyCommand=touch pwned"},
	{"tar cf out.tar a %s", "--checkpoint=1 --checkpoint-action=exec=touch\\ pwned"},
	{"tar cf out.tar a %s", "-Itouch pwned;"},
	{"sort %s a", "--compress-program=./pwn"},
	{"rsync %s a b", "-esh -c 'touch pwned'"},
	{"sed %s a", "-es/^/touch pwned/e"},
	{"awk %s a", "BEGIN{system(\"touch pwned\")}"},
	{"env %s true", "-Stouch pwned"},
	{"xargs %s true", "-Itouch"},
	{"perl -e 1 %s", "-etouch pwned"},
	{"python3 %s", "-cimport os;os.system('touch pwned')"},
	{"sh %s", "-ctouch pwned"},
	{"vim -es %s", "+!touch pwned"},
	{"date %s", "--file=/etc/passwd"},
	{"./echo.sh %s", "-x"},
	{"make %s", "SHELL=./pwn"},
	{"make -j2 %s all", "--eval=$(shell touch pwned)"},
	{"git -c %s log", "alias.log=!touch pwned"},
	{"git -c core.pager=%s -p help", "touch pwned"},
	{"git config alias.x %s; git x", "!touch pwned"},
	{"sqlite3 db %s", ".shell touch pwned"},
	{"PAGER=%s git -p help", "touch pwned;"},
	{"sort --compress-program=%s -S 1b a", "./pwn"},
	{"BASH_ENV=%s bash -c :", "./pwn"},
	{"PATH=%s touch x", "."},
	{"tar -I %s -cf out.tar a", "touch pwned;"},
}

// FuzzDataNeverRuns puts a value into a place of a program's text, runs what
// comes out in a folder of its own, and looks for the trace of an execution.
func FuzzDataNeverRuns(f *testing.F) {
	for i, p := range programs {
		for quote := range 5 {
			f.Add(i, quote, p.value)
		}
	}
	for _, v := range hostile {
		f.Add(0, 0, v)
	}
	f.Fuzz(func(t *testing.T, program, quote int, value string) {
		if len(value) > 4096 || strings.IndexByte(value, 0) >= 0 {
			t.Skip()
		}
		p := programs[max(program, 0)%len(programs)]
		place := []string{"${x}", `"${x}"`, "'${x}'", "$(printf %s ${x})", "pre ${x}"}[max(quote, 0)%5]
		src := strings.ReplaceAll(p.src, "%s", place)
		text, err := template.Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		c, err := text.Shell(data(value))
		if err != nil {
			return
		}
		if place == "$(printf %s ${x})" {
			return // what a command prints is beyond what a text shows
		}
		runSandboxed(t, c, value)
	})
}

// runSandboxed runs a command where nothing of the machine can be reached by a
// relative name, for at most two seconds.
func runSandboxed(t *testing.T, c template.Command, value string) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "a\n", "pwn": "#!/bin/sh\ntouch pwned\n", "echo.sh": "#!/bin/sh\necho \"$@\"\n",
		"touch": "#!/bin/sh\n/usr/bin/touch pwned\n", "Makefile": "all a pre:\n\t@true\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	argv := c.Argv
	if argv == nil {
		argv = []string{"sh", "-c", c.Script}
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return
	}
	cmd := exec.CommandContext(t.Context(), path, argv[1:]...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_ALLOW_PROTOCOL=file"}, c.Env...)
	if err := cmd.Start(); err != nil {
		return
	}
	timer := time.AfterFunc(2*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait() // it may well fail; what counts is what it left behind
	if found, _ := filepath.Glob(filepath.Join(dir, "*pwned*")); len(found) > 0 && !strings.Contains(c.Line(), "pwned*") {
		t.Errorf("%q ran the value %q\n%q", c.Line(), value, c.Env)
	}
}

// TestMendOfAnOptionTakesIt: what the message says to write is a reference that may be an
// option, also where it has a default.
func TestMendOfAnOptionTakesIt(t *testing.T) {
	for src, want := range map[string]string{"wc ${x}": "${x|option}", "wc $x": "${x|option}", "wc ${x:-}": "${x|option:-}", "wc ${x|trim:-a b}": "${x|trim|option:-a b}", "wc ${y:-${x}}": "${y|option:-${x}}"} {
		_, err := shellOf(t, src, optionScope("-l"))
		if err == nil || !strings.Contains(err.Error(), "or "+want+" if it is meant") {
			t.Errorf("%q: %v, want %s", src, err, want)
		}
		if c, err := shellOf(t, "wc "+want, optionScope("-l")); err != nil || !strings.Contains(fmt.Sprint(c.Line(), c.Env), "-l") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
