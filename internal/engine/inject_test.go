package engine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// hostile are texts that would run something if they were pasted into a shell text
// unchanged. Each tries to make the file named pwned.
var hostile = []string{
	"$(touch pwned)",
	"`touch pwned`",
	"'; touch pwned; '",
	`"; touch pwned; "`,
	"; touch pwned #",
	"&& touch pwned",
	"| touch pwned",
	"\ntouch pwned\n",
	"a\nb\n\nc",
	"EOF\ntouch pwned\n",
	"\\",
	"\\'; touch pwned #",
	"${IFS}$(touch${IFS}pwned)",
	"$((touch pwned))",
	"%s %n %d",
	"-n",
	"$HOME ~ *",
	"  two  blanks  ",
	"é \U0001F600 \t tab",
	"'\"'\"'; touch pwned; '\"'\"'",
	"!touch pwned",
	"{touch,pwned}",
	"$'\\x27; touch pwned #'",
}

// quotedPlaces are the places in a shell text where a value must arrive unchanged; § stands
// for the reference.
var quotedPlaces = map[string]string{
	"double quotes":     `printf %s "§" > @EV@/x`,
	"within words":      `printf %s "<§>" | sed -e '1s/^<//' -e '$s/>$//' > @EV@/x`,
	"single quotes":     `printf %s '§' > @EV@/x`,
	"single in sh -c":   `sh -c 'printf %s "$1" > @EV@/x' sh '§'`,
	"a here-document":   "cat > @EV@/y <<EOF\n§\nEOF\nhead -c -1 @EV@/y > @EV@/x",
	"a quoted heredoc":  "cat > @EV@/y <<'EOF'\n§\nEOF\nhead -c -1 @EV@/y > @EV@/x",
	"a substitution":    `x=$(printf %s "§"; echo .); printf %s "${x%.}" > @EV@/x`,
	"an assignment":     `x="§"; printf %s "$x" > @EV@/x`,
	"a bare assignment": `x=§; printf %s "$x" > @EV@/x`,
	"single assignment": `x='§'; printf %s "$x" > @EV@/x`,
	"a default":         `printf %s "${NOTHING:-§}" > @EV@/x`,
	"a case":            `case "§" in "§") printf %s "§" > @EV@/x;; esac`,
	"a comment":         "# § is the value\nprintf %s \"§\" > @EV@/x",
	"a function":        "f() { printf %s \"$1\" > @EV@/x; }\nf \"§\"",
}

// barePlaces are those where a value is split at blanks, like a pasted word.
var barePlaces = map[string]string{
	"an argument":   `set -f; printf '%s ' § > @EV@/x`,
	"a for":         `set -f; for w in §; do printf '%s ' "$w"; done > @EV@/x`,
	"a redirection": `true § > @EV@/x`,
}

// sources are the ways in which a value comes into the run: the file, where STEP is
// replaced by the step that uses the value, and the reference.
var sources = map[string]struct{ file, ref string }{
	"an item": {"map:\n  input: items.json\n  agent_template:\n    - shell: STEP", "${item.v}"},
	"a captured output": {`commands:
  - shell: cat value
    capture: got
  - shell: STEP`, "${got}"},
	"shell.output": {`commands:
  - shell: cat value
  - shell: STEP`, "${shell.output}"},
	"an agent's answer": {`commands:
  - claude: /sh cat value; echo .
  - shell: STEP`, "${claude.output}"},
	"a foreach":             {"commands:\n  - foreach: {input: items.json, do: [{shell: STEP}]}", "${item.v}"},
	"an inherited variable": {"commands:\n  - shell: STEP", "${env.HOSTILE}"},
}

// tryValue runs a shell text with a value from a source and gives what arrived.
func tryValue(t *testing.T, source, value, text string) string {
	t.Helper()
	b := newBench(t)
	s := sources[source]
	items, err := json.Marshal([]any{map[string]any{"v": value}})
	if err != nil {
		t.Fatal(err)
	}
	b.write("items.json", string(items))
	if err := os.WriteFile(filepath.Join(b.dir, "value"), []byte(value), 0o644); err != nil {
		t.Fatal(err)
	}
	b.setenv("HOSTILE", value)
	step, err := json.Marshal(b.fill(strings.ReplaceAll(text, "§", s.ref)))
	if err != nil {
		t.Fatal(err)
	}
	r := b.run(strings.Replace(s.file, "STEP", string(step), 1))
	if r.sum.Status != event.Succeeded {
		t.Errorf("%q in %s: the run ended %s%s", value, text, r.sum.Status, r.story())
	}
	for _, dir := range []string{b.dir, b.ev} {
		if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
			t.Errorf("%q in %s was executed", value, text)
		}
	}
	got, err := os.ReadFile(filepath.Join(b.ev, "x"))
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(got)
}

// TestDataIsNeverCode takes each hostile text from each source to each place: it never
// runs, and it arrives unchanged.
func TestDataIsNeverCode(t *testing.T) {
	for source := range sources {
		for place, text := range quotedPlaces {
			t.Run(source+" in "+place, func(t *testing.T) {
				t.Parallel()
				for i, value := range hostile {
					// Each value takes two of the sources; the whole table has every source
					// with every place
					if (i+len(place)+len(source))%3 != 0 {
						continue
					}
					want := value
					switch source {
					case "a captured output", "shell.output":
						want = strings.TrimRight(value, "\n") // a step's output has no last line end
					case "an agent's answer":
						want = value + "."
					}
					if got := tryValue(t, source, value, text); got != want {
						t.Errorf("%q arrived as %q", want, got)
					}
				}
			})
		}
		for place, text := range barePlaces {
			t.Run(source+" bare in "+place, func(t *testing.T) {
				t.Parallel()
				for i, value := range hostile {
					if (i+len(place))%3 != 0 {
						continue
					}
					got := tryValue(t, source, value, text)
					if source == "an agent's answer" {
						value += "."
					}
					if place != "a redirection" && strings.TrimSpace(got) != strings.Join(strings.Fields(value), " ") {
						t.Errorf("%q arrived as the words %q", value, got)
					}
				}
			})
		}
	}
}

// TestOriginsThatAreTrusted: what the author wrote may be code.
func TestOriginsThatAreTrusted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.load.Params = map[string]string{"what": "echo c"}
	b.opt.Args = []string{"echo d"}
	r := b.run(`
parameters: {optional: [{name: what, type: string}]}
env: {WHAT: echo a}
commands:
  - shell: ${WHAT} >> @EV@/x; ${what} >> @EV@/x; ${ARG} >> @EV@/x
`)
	r.want("x", "a\nc\nd")
}

// TestRawOptsOut: |raw pastes data unchanged, which the file then says explicitly.
func TestRawOptsOut(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
commands:
  - foreach: ["echo a"]
    do: [{shell: "${item|raw} > @EV@/x; echo ${item} > @EV@/y"}]
`)
	r.want("x", "a")
	r.want("y", "echo a")
}

// TestHostileElsewhere: data in prompts, files, requests, directories and messages is also
// only text.
func TestHostileElsewhere(t *testing.T) {
	for _, value := range hostile {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			items, err := json.Marshal([]string{value})
			if err != nil {
				t.Fatal(err)
			}
			b.write("items.json", string(items))
			r := b.run(`
commands:
  - foreach:
      input: items.json
      do:
        - claude: "/say <${item}>"
        - write_file: {path: w.txt, content: "${item}"}
        - shell: cat w.txt > @EV@/file; printf %s "$V" > @EV@/env; printf %s "${claude.output}" > @EV@/said
          env: {V: "${item}"}
`)
			r.status(event.Succeeded)
			for name, want := range map[string]string{"file": value, "env": value, "said": "<" + value + ">"} {
				got, err := os.ReadFile(filepath.Join(b.ev, name))
				if err != nil || string(got) != want {
					t.Errorf("%s is %q (%v), want %q", name, got, err, want)
				}
			}
			if _, err := os.Stat(filepath.Join(b.dir, "pwned")); err == nil {
				t.Errorf("%q was executed", value)
			}
		})
	}
}

// TestDataChoosesNoProgram: data cannot be in a variable of a step's environment that names
// a program, as it cannot in a shell text. The author's own values, and values with |raw,
// can.
func TestDataChoosesNoProgram(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"BASH_ENV": "$(touch pwned)", "PATH": ".", "GIT_CONFIG_VALUE_0": "!touch pwned", "GIT_SSH_COMMAND": "touch pwned;", "PERL5OPT": "-Mpwned",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			items, err := json.Marshal([]any{map[string]any{"v": value}})
			if err != nil {
				t.Fatal(err)
			}
			b.write("items.json", string(items))
			r := b.run(strings.ReplaceAll(`
env:
  OWN: {command: echo /author}
map:
  input: items.json
  agent_template:
    - {shell: 'echo ran >> @EV@/x', env: {NAME: '${item.v}'}}
`, "NAME", name))
			if r.sum.Status == event.Succeeded {
				t.Errorf("it ended %s", r.sum.Status)
			}
			if story := r.story(); !strings.Contains(story, "would choose what programs run, by way of the variable") || !strings.Contains(story, name) {
				t.Error(story)
			}
			if _, err := os.Stat(filepath.Join(b.ev, "x")); err == nil {
				t.Error("the step ran")
			}
		})
	}
	b := newBench(t)
	b.write("items.json", `[{"v": "/a"}]`)
	b.setenv("ODD", "/b (x86)")
	r := b.run(`
env:
  PATH: {command: 'echo "/own (dir):$PATH"'}
map:
  input: items.json
  agent_template:
    - {shell: 'echo "${PATH%%:/own*}" >> @EV@/x', env: {PATH: '${ODD}:${PATH}', NAME: '${item.v}'}}
    - {shell: 'echo "${PATH%%:/own*}" >> @EV@/x', env: {PATH: '${item.v|raw}:${PATH}'}}
`)
	if r.sum.Status != event.Succeeded {
		t.Error(r.story())
	}
	r.want("x", "/b (x86)\n/a")
}
