package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// The files of these tests are written as in the documentation of Prodigy, the program that
// the format comes from. Each does what is written there.

func TestProdigyEnvFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.setenv("TOKEN_OUTSIDE", "outside-token-1234")
	b.write("keys.env", "DB_PASSWORD='pass word $X 123'\n")
	r := b.run(`
env_files:
  - keys.env
  - absent.env
  - {path: absent-too.env}
secrets: {DB_PASSWORD: '${env:DB_PASSWORD}'}
env:
  TOKEN: {secret: true, value: '${TOKEN_OUTSIDE}'}
  WHERE: '${HOME}/below'
commands:
  - shell: 'printf "%s|" "$DB_PASSWORD" "$TOKEN" "$WHERE" > @EV@/x; echo "$TOKEN and $DB_PASSWORD"'
    capture: shown
`)
	r.status(event.Succeeded)
	r.want("x", "pass word $X 123|outside-token-1234|"+strings.TrimSuffix(b.ev, "/ev")+"/below|")
	if strings.Contains(r.shown, "outside-token") || strings.Contains(r.shown, "pass word") || !strings.Contains(r.shown, "*** and ***") {
		t.Errorf("the secrets are shown: %q", r.shown)
	}
	b = newBench(t)
	r = b.run("env_files: [{path: absent.env, required: true}]\ncommands: [{shell: 'true'}]")
	r.status(event.Failed)
	if !strings.Contains(r.sum.Message, "absent.env") {
		t.Errorf("the message is %q", r.sum.Message)
	}
}

func TestProdigyEnvByProfile(t *testing.T) {
	t.Parallel()
	const src = `
env:
  URL: {default: local, prod: far, stage: near}
  OTHER: {default: 1, stage: 2}
profiles: {prod: {LEVEL: quiet}, stage: {OTHER: 3}}
commands: [{shell: 'echo "$URL $OTHER $LEVEL" > @EV@/x'}]
`
	for profile, want := range map[string]string{"": "local 1 ", "prod": "far 1 quiet", "stage": "near 3 "} {
		b := newBench(t)
		b.opt.Profile = profile
		b.load.Profile = profile
		r := b.run(src)
		r.status(event.Succeeded)
		r.want("x", want)
	}
}

func TestProdigyStepForms(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(`
commands:
  - shell: 'echo x >> @EV@/tries; test $(wc -l < @EV@/tries) -ge 3'
    max_attempts: 3
    retry: {attempts: 3, initial_delay: 0s}
  - shell: 'echo y >> @EV@/again; test $(wc -l < @EV@/again) -ge 2'
    max_attempts: 2
  - shell: 'echo out; echo err >&2; exit 3'
    capture: seen
    capture_streams: "stdout,stderr,exit_code"
    continue_on_error: true
  - shell: 'echo "${seen}|${seen.stderr}|${seen.exit_code}|${seen.success:-none}" > @EV@/seen'
  - shell: 'true'
    on_success:
      shell: echo first >> @EV@/order
      claude: /second
  - goal_seek:
      goal: a file
      command: "shell: touch @EV@/made"
      validate: "test -e @EV@/made && echo 'score: 100'"
`)
	r.status(event.Succeeded)
	if n := strings.Count(r.file("tries"), "x"); n != 3 {
		t.Errorf("the first step ran %d times", n)
	}
	if n := strings.Count(r.file("again"), "y"); n != 2 {
		t.Errorf("the second step ran %d times", n)
	}
	r.want("seen", "out|err|3|none")
	r.want("order", "first")
}

// TestProdigyGitLists: lists of files are words that shell texts can split.
func TestProdigyGitLists(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Isolation = "none"
	r := b.run(`
commands:
  - shell: mkdir -p src doc; touch src/a.go src/b.go doc/c.md; git add -A; git commit -qm one
  - shell: echo "${step.files_added}" | tr ' ' '\n' | grep '\.go$' | wc -l | tr -d ' ' > @EV@/piped
  - shell: mkdir -p src/deep; touch src/deep/d.go e.md; git add -A; git commit -qm two
  - shell: for f in ${step.files_added}; do echo "<$f>"; done > @EV@/loop
  - shell: mkdir -p src/deeper; touch src/deeper/f.go g.md; git add -A; git commit -qm three
  - shell: echo "${workflow.files_added:*.md:lines}" > @EV@/lines
    when: "${step.files_added:*.go}"
  - shell: touch h.md; git add -A; git commit -qm four
  - shell: touch @EV@/never
    when: "${step.files_added:*.go}"
  - shell: touch i.md; git add -A; git commit -qm five
  - shell: echo "${step.files_added:csv} ${workflow.files_added|pattern:src/**/*.go|basename}" > @EV@/filtered
    when: "${step.files_added|count} > 0"
`)
	r.status(event.Succeeded)
	r.want("piped", "2")
	r.want("loop", "<e.md>\n<src/deep/d.go>")
	r.want("lines", "doc/c.md\ne.md\ng.md")
	r.want("filtered", "i.md a.go b.go d.go f.go")
	if _, err := os.Stat(filepath.Join(b.ev, "never")); err == nil {
		t.Error("a step ran whose condition names no file")
	}
}

// TestProdigyFiles: a secret below the home directory, and values from a JSON file.
func TestProdigyFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	home := filepath.Dir(b.ev)
	if err := os.WriteFile(filepath.Join(home, "key"), []byte("key-of-1234\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.write("package.json", `{"name": "it's", "on": {"node": [18, 20]}}`)
	r := b.run(`
secrets: {KEY: {provider: file, key: "~/key"}}
commands:
  - shell: 'echo "$KEY|${json:name:package.json}|${json:on.node[1]:package.json}" > @EV@/x'
`)
	r.status(event.Succeeded)
	r.want("x", "key-of-1234|it's|20")
}

// TestOlderCaptures: a variable whose name the run computes, a capture written as a map,
// and an output of setup that is read in a format.
func TestOlderCaptures(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
commands:
  - foreach: [one, two]
    do:
      - {shell: 'echo of ${item}', capture_output: "found_${item}"}
      - {shell: 'echo "${found_one|default:none}/${found_two|default:none}" >> @EV@/each'}
  - {shell: 'echo [3, 4]', capture: {output: list, format: json}}
  - {shell: 'echo ${list[1]} > @EV@/x'}
`)
	r.status(event.Succeeded)
	r.want("each", "of one/none\nnone/of two")
	r.want("x", "4")

	r = newBench(t).run(`
setup:
  commands: [{shell: 'echo 7'}, {shell: 'echo "{\"a\": [5, 6]}"'}, {shell: echo none}]
  capture_outputs:
    n: {command_index: 0, format: number}
    v: {command_index: 1, format: json}
    d: {command_index: 2, format: number, default: 9}
map: {input: [1, 2, 3, 4], agent_template: [{shell: 'test ${item} != 3'}]}
reduce:
  - shell: echo "${n} ${v.a[1]} ${d} ${map.failure_rate}" > @EV@/x
`)
	r.want("x", "7 6 9 0.25")
}

// TestMadeNamesAreNames: data cannot make a variable with a name that no file could give.
func TestMadeNamesAreNames(t *testing.T) {
	for name, ok := range map[string]bool{"one": true, "a.b-c": true, "a/b": false, "a b": false, "x}${y": false, "a\nb": false} {
		for _, key := range []string{"capture", "capture_output"} {
			r := newBench(t).run("commands:\n- foreach: [\"" + name + "\"]\n  do: [{shell: 'echo 1', " + key + ": \"found_${item}\"}]\n")
			if ok {
				r.status(event.Succeeded)
			} else if r.status(event.Failed); !strings.Contains(r.sum.Message, "cannot be the name of a variable") {
				t.Errorf("%s: the message is %q", name, r.sum.Message)
			}
		}
	}
}

// TestSecretByValue: a secret given as a value, as in env.
func TestSecretByValue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.setenv("OUTER", "very-secret-1")
	r := b.run("secrets: {S: {value: '${OUTER}', secret: true}}\ncommands: [{shell: 'echo \"$S\" | rev > @EV@/x; echo \"$S\"'}]\n")
	r.status(event.Succeeded)
	r.want("x", "1-terces-yrev")
	if strings.Contains(r.shown, "very-secret-1") || !strings.Contains(r.shown, "***") {
		t.Errorf("shown: %q", r.shown)
	}
}

// TestGoalSeekCommand: command: is what is repeated; it is a prompt if it begins with a
// slash.
func TestGoalSeekCommand(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"echo a >> @EV@/n", "/sh echo a >> @EV@/n"} {
		r := newBench(t).run("commands: [{goal_seek: {goal: two, command: '" + command + "', validate: 'echo \"score: $(($(wc -l < @EV@/n) * 50))\"', max_attempts: 5}}]")
		r.status(event.Succeeded)
		r.want("n", "a\na")
	}
}

// TestTemplateStep: a step that names a template of the file with template:.
func TestTemplateStep(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
templates:
  plain: [{shell: echo plain >> @EV@/x}]
  to: {parameters: [where], commands: [{shell: 'echo to ${where} >> @EV@/x'}]}
steps:
  - template: plain
  - template: to
    with: {where: there}
`)
	r.status(event.Succeeded)
	r.want("x", "plain\nto there")
}

// TestForeachCommands: the steps of a foreach under commands: or steps:.
func TestForeachCommands(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"do", "commands", "steps"} {
		r := newBench(t).run("commands: [{foreach: {items: [a, b], " + key + ": [{shell: 'echo ${item} >> @EV@/x'}]}}]")
		r.status(event.Succeeded)
		r.want("x", "a\nb")
	}
}

// TestFallbackPrompt: a fallback that begins with a slash is a prompt.
func TestFallbackPrompt(t *testing.T) {
	t.Parallel()
	const text = "commands: [{shell: exit 1, retry: {attempts: 2, initial_delay: 1ms, on_failure: {fallback: {command: /sh echo asked > @EV@/x}}}}]"
	r := newBench(t).run(text)
	r.status(event.Succeeded)
	r.want("x", "asked")
	b := newBench(t)
	b.opt.Environ = []string{"PATH=/usr/bin:/bin", "HOME=" + b.dir}
	if _, err := b.try(t.Context(), text); err == nil || !strings.Contains(err.Error(), "claude") {
		t.Errorf("the error is %v, want one that names claude", err)
	}
}

// TestInputForms: items in a JSON text, and lines in a file that is called .json and has no
// JSON.
func TestInputForms(t *testing.T) {
	t.Parallel()
	for name, row := range map[string][2]string{
		"a list as a text": {`'["a", "b"]'`, "a b"},
		"lines of paths":   {"paths.json", "./a.rs src/b.rs"},
		"a list":           {"list.json", "1 2"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("paths.json", "./a.rs\nsrc/b.rs\n")
			b.write("list.json", "\n [1, 2]\n")
			r := b.run("map: {input: " + row[0] + ", max_parallel: 1, agent_template: [{shell: 'printf \"%s \" \"${item}\" >> @EV@/x'}]}")
			r.status(event.Succeeded)
			if got := strings.TrimSpace(r.file("x")); got != row[1] {
				t.Errorf("items are %q, want %q", got, row[1])
			}
		})
	}
	b := newBench(t)
	b.write("broken.json", "[1, 2\n")
	b.run("map: {input: broken.json, agent_template: [{shell: 'true'}]}").status(event.Failed)
}

// TestGitContextBeforeFirstStep: the git context exists and is empty.
func TestGitContextBeforeFirstStep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Isolation = "none"
	r := b.run("commands: [{shell: 'echo \"[${step.files_changed}] ${step.commit_count} ${workflow.commit_count}\" > @EV@/x'}]")
	r.status(event.Succeeded)
	r.want("x", "[] 0 0")
}

// TestMergedWithUncommittedItems: setup leaves the list of items uncommitted, and agents
// commit. The run ends well when it is merged, and what is left stays.
func TestMergedWithUncommittedItems(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	b.opt.Yes = true
	r := b.run(`
setup: [{shell: "echo '[1, 2]' > items.json"}]
map:
  input: items.json
  agent_template:
    - shell: echo ${item} > out-${item}.txt; git add out-${item}.txt
    - shell: git commit -qm ${item}
      commit_required: true
reduce: [{shell: ls out-*.txt > @EV@/x}]
`)
	r.status(event.Succeeded)
	r.want("x", "out-1.txt\nout-2.txt")
	if got := b.output("git ls-files | sort | tr '\\n' ' '"); got != "first.txt items.json out-1.txt out-2.txt" {
		t.Errorf("merged: %s", got)
	}
}
