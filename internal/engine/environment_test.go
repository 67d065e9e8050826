package engine_test

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// TestEnvPrecedence: inherited, env_files, env, profile, step env, secrets. Each wins over
// those before it, for the shell and for the text.
func TestEnvPrecedence(t *testing.T) {
	const file = `
env_files: [one.env, two.env]
env: {D: env, E: env, F: env, G: env}
profiles: {ci: {E: profile, F: profile, G: profile}}
secrets: {G: {provider: command, key: echo secret-of-all}}
`
	const step = `
commands:
  - shell: echo "$A $B $C $D $E $F $G" | sed s/secret-of-all/secret/ > @EV@/shell
    env: {F: step, G: step}
  - write_file: {path: t, content: '${env.A} ${env.B} ${env.C} ${env.D} ${env.E} ${env.F}'}
    env: {F: step}
  - shell: cp t @EV@/text
`
	for _, row := range []struct{ profile, head, shell string }{
		{"ci", "", "inherited file second env profile step secret"},
		{"", "active_profile: ci", "inherited file second env profile step secret"},
		{"", "", "inherited file second env env step secret"},
	} {
		t.Run(row.profile+row.head, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			for _, name := range []string{"A", "B", "C", "D", "E", "F", "G"} {
				b.setenv(name, "inherited")
			}
			b.write("one.env", "# a comment\nB=file\nexport C='first'\n\n")
			b.write("two.env", "C=\"second\"\nD=file # and a comment\n")
			b.load.Profile = row.profile
			r := b.run(row.head + file + step)
			r.status(event.Succeeded)
			r.want("shell", row.shell)
			r.want("text", strings.TrimSuffix(row.shell, " secret"))
		})
	}
}

// TestEnvFiles: quotes, escapes, and lines that are not NAME=value.
func TestEnvFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("sub/.env", "A='single $B \\n'\nB=\"double \\\"q\\\" \\n\\$x\"\n  C = blanks  \nEMPTY=\nA_URL=http://h/?a=b#c\n")
	r := b.run("env_files: [sub/.env]\ncommands: [{shell: 'printf \"%s|\" \"$A\" \"$B\" \"$C\" \"$EMPTY\" \"$A_URL\" > @EV@/x'}]")
	r.status(event.Succeeded)
	r.want("x", "single $B \\n|double \"q\" \n$x|blanks||http://h/?a=b#c|")
	for text, want := range map[string]string{"A B\n": ":1:", "A=b\n1=c\n": ":2:"} {
		b := newBench(t)
		b.write("x.env", text)
		r := b.run("env_files: [x.env]\ncommands: [{shell: 'true'}]")
		r.status(event.Failed)
		if !strings.Contains(r.sum.Message, want) {
			t.Errorf("%q: the message is %q, want %s in it", text, r.sum.Message, want)
		}
	}
}

// TestDynamicEnv: values from commands, once or at each use, and conditional values.
func TestDynamicEnv(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
parameters: {optional: [{name: stage, type: string, default: prod}]}
env:
  ONCE: {command: "echo a >> @EV@/once; wc -l < @EV@/once | tr -d ' '", cache: true}
  EACH: {command: "echo a >> @EV@/each; wc -l < @EV@/each | tr -d ' '", cache: false}
  LEVEL: {condition: "${stage} == 'prod'", when_true: quiet, when_false: loud}
  OTHER: {condition: "stage != 'prod'", when_true: yes, when_false: no}
  INT: 8080
  FLOAT: 1.50
  BOOL: true
  REF: "${INT}/x"
commands:
  - shell: echo "$ONCE $EACH" >> @EV@/x
  - shell: echo "$ONCE $EACH" >> @EV@/x
  - shell: echo "$LEVEL $OTHER $INT $FLOAT $BOOL $REF" >> @EV@/x
  - shell: echo "$ONCE $EACH" >> @EV@/x
    env: {EACH: own}
`)
	r.status(event.Succeeded)
	lines := strings.Split(r.file("x"), "\n")
	if len(lines) != 4 || lines[2] != "quiet no 8080 1.50 true 8080/x" || lines[3] != "1 own" {
		t.Fatalf("x is %q", lines)
	}
	if lines[0] == lines[1] || !strings.HasPrefix(lines[0], "1 ") || !strings.HasPrefix(lines[1], "1 ") {
		t.Errorf("cached and not cached: %q", lines[:2])
	}
	if n := lineCount(r.file("once")); n != 1 {
		t.Errorf("the cached command ran %d times", n)
	}
}

// TestStepEnvHoldsInside: env, working_dir and clear_env of a step that contains steps
// apply to these, in the shell and in texts.
func TestStepEnvHoldsInside(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("sub/file", "")
	b.setenv("OUTSIDE", "seen")
	r := b.run(`
env: {LEVEL: run}
commands:
  - foreach: [1]
    env: {LEVEL: outer, MORE: "${LEVEL} and more"}
    working_dir: sub
    do:
      - shell: echo "$LEVEL ${LEVEL} ${env.LEVEL} $MORE $(basename "$PWD")" > @EV@/foreach
      - shell: echo "$LEVEL ${env.LEVEL}" > @EV@/inner
        env: {LEVEL: inner}
  - validate: {shell: 'echo "$LEVEL" > @EV@/validate'}
    env: {LEVEL: checked}
  - goal_seek: {goal: g, shell: 'echo "$LEVEL" > @EV@/goal', validate: {shell: 'true'}}
    env: {LEVEL: sought}
  - foreach: [1]
    clear_env: true
    do: [{shell: 'echo "${OUTSIDE:-gone} ${LEVEL:-gone} $HOME" > @EV@/cleared'}]
  - shell: echo "${OUTSIDE} $LEVEL" > @EV@/after
`)
	r.status(event.Succeeded)
	r.want("foreach", "outer outer outer outer and more sub")
	r.want("inner", "inner inner")
	r.want("validate", "checked")
	r.want("goal", "sought")
	if got := r.file("cleared"); !strings.HasPrefix(got, "gone gone /") {
		t.Errorf("cleared is %q", got)
	}
	r.want("after", "seen run")
}

// TestWorkingDir: relative to the place, absolute, from a variable, and one that does not
// exist.
func TestWorkingDir(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("a/b/file", "")
	r := b.run(`
commands:
  - {shell: pwd > @EV@/x, working_dir: a/b}
  - {shell: pwd > @EV@/y, working_dir: '@DIR@/a'}
  - {shell: echo a, capture: where}
  - {shell: pwd > @EV@/z, working_dir: '${where}/b'}
  - {write_file: {path: w, content: w}, working_dir: a}
  - {shell: pwd, working_dir: gone}
`)
	r.status(event.Failed)
	r.want("x", b.dir+"/a/b")
	r.want("y", b.dir+"/a")
	r.want("z", b.dir+"/a/b")
	if b.output("cat a/w") != "w" || !strings.Contains(r.sum.Message, "working_dir") {
		t.Errorf("the message is %q", r.sum.Message)
	}
}

// TestEnvIsAsInTheShell: in a step's text, a variable of an env block has the value that
// the shell itself would read from the environment.
func TestEnvIsAsInTheShell(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
env:
  QUOTE: it's "so"
  DOLLAR: costs $5 $(touch pwned)
  GLOB: '*.one'
  WORDS: -n a b
  CMD: echo ran
  SEMI: a; touch pwned
commands:
  - shell: touch x.one y.one
  - shell: |
      printf '%s\n' "$QUOTE" "${QUOTE}" "$DOLLAR" $GLOB "$GLOB" "${SEMI}" $SEMI > @EV@/x
      set -- $WORDS; echo $# > @EV@/words; $CMD > @EV@/cmd; ls > @EV@/ls
`)
	r.status(event.Succeeded)
	r.want("x", "it's \"so\"\nit's \"so\"\ncosts $5 $(touch pwned)\nx.one\ny.one\n*.one\na; touch pwned\na;\ntouch\npwned")
	r.want("words", "3")
	r.want("cmd", "ran")
	r.want("ls", "x.one\ny.one")
}

// TestProfileOfStep: a step's env names a profile of the file, and the step gets its
// variables. The step's own variables win over them.
func TestProfileOfStep(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
env: {STAGE: test, LEVEL: none, URL: none}
profiles:
  test: {LEVEL: debug, URL: local}
  live: {env: {LEVEL: error}}
commands:
  - shell: echo "$LEVEL $URL" >> @EV@/x
    env: {profile: test, URL: own}
  - shell: echo "$LEVEL $URL ${profile:-unset}" >> @EV@/x
    env: {profile: '${STAGE}'}
  - shell: echo "$LEVEL $URL" >> @EV@/x
    env: {profile: live}
  - shell: echo "$LEVEL $profile" >> @EV@/x
    env: {profile: other}
  - shell: echo "$LEVEL" >> @EV@/x
`)
	r.status(event.Succeeded)
	r.want("x", "debug own\ndebug local unset\nerror none\nnone other\nnone")
}

// TestWarningOfAVariable: if the command of an environment variable fails, a warning says
// so without any secret in plain text, and the run continues.
func TestWarningOfAVariable(t *testing.T) {
	t.Parallel()
	r := newBench(t).run("secrets: {S: hush-1234567}\nenv: {X: 'a${cmd:echo $S >&2; exit 3}'}\ncommands: [{shell: 'echo a > @EV@/x'}]\n")
	r.status(event.Succeeded)
	r.want("x", "a")
	if !r.noted("exit status 3") {
		t.Errorf("there is no warning%s", r.story())
	}
	if strings.Contains(r.story(), "hush") {
		t.Errorf("the warning has the secret%s", r.story())
	}
}
