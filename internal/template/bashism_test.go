package template

import (
	"os/exec"
	"testing"
)

// What is told to be bash's is something that dash does otherwise, and what is not told
// it does the same; both are asked.
func TestBashisms(t *testing.T) {
	for text, what := range map[string]string{
		"if [[ a == a ]]; then echo yes; fi":      "[[ … ]]",
		"i=1; ((i++)); echo $i":                   "(( … ))",
		"let x=1+1; echo $x":                      "let",
		"cat <(echo a)":                           "<(…)",
		"echo a | tee >(cat >&2)":                 ">(…)",
		"a=(1 2); echo ok":                        "an array",
		"echo a &> /dev/null; wait":               "&>",
		"cat <<< word":                            "<<<",
		"ls /none |& wc -l":                       "|&",
		"function f { echo f; }; f":               "function NAME",
		"for ((i=0; i<2; i++)); do echo $i; done": "for (( … ))",
		"for i in {1..3}; do echo $i; done":       "{a,b} and {1..3}",
		"echo {a,b} >&1":                          "{a,b} and {1..3}",
		"printf %s $'a\\n'":                       "$'…'",
		"declare x=1; echo $x":                    "declare",
		"typeset x=1; echo $x":                    "typeset",
		"source /dev/null && echo ok":             "source",
		"if [ a == a ]; then echo yes; fi":        "== in [",
		"test a == a && echo yes":                 "== in test",
		"echo -e 'a\\tb'; true":                   "echo -e",

		"if [ a = a ]; then echo yes; fi":                       "",
		"i=1; i=$((i + 1)); echo $i":                            "",
		"f() { local x=1; echo $x; }; f":                        "",
		"export X=1; readonly Y=2; echo $X$Y":                   "",
		"echo '[[ a == b ]] {1..3} &> x'":                       "",
		"echo \"{a,b}\" '$x' {} {a} a{b; true":                  "",
		"cat <<E\n[[ {1..3} &> ]]\nE":                           "",
		"bash -c '[[ a == a ]] && echo {1..3}'":                 "",
		"source() { echo mine; }; source x":                     "",
		"echo $(( (1 + 2) * 3 )); ( (echo a) )":                 "",
		"[ 'a' != 'b' ] && echo '=='":                           "",
		"case ab in a*) echo yes;; esac":                        "",
		"set -e; echo a | grep -e a; printf '%s\\n' -e":         "",
		"for f in a b; do echo \"$f\"; done; x=a; echo ${x%a}.": "",
	} {
		c, err := Parse(text)
		if err != nil {
			t.Fatal(text, err)
		}
		got, found := c.Bashism()
		if got.What != what || found && got.Dash == "" {
			t.Errorf("%s: %+v, want %q", text, got, what)
		}
		if !haveBoth() {
			continue
		}
		if same := run("bash", text) == run("dash", text); same == found {
			t.Errorf("%s: told %t; bash: %q, dash: %q", text, found, run("bash", text), run("dash", text))
		}
	}
}

func haveBoth() bool {
	_, a := exec.LookPath("bash")
	_, b := exec.LookPath("dash")
	return a == nil && b == nil
}

// run is what a shell prints, and how it ends.
func run(shell, text string) string {
	out, err := exec.Command(shell, "-c", text).Output()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}
