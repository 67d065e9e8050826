package engine_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

const secret = "hunter2/Zw+ölf sieben"

// leaks lists the files below a directory that have a secret in them, plain or
// encoded.
func leaks(t *testing.T, dir string) []string {
	t.Helper()
	forms := map[string]string{
		"plain": secret, "base64": base64.StdEncoding.EncodeToString([]byte(secret))[:20],
		"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "half": "Zw+ölf",
	}
	var found []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		for name, f := range forms {
			if bytes.Contains(b, []byte(f)) {
				found = append(found, filepath.Base(path)+": "+name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// leaky prints the secret in every way that a step can.
const leaky = `
secrets: {TOKEN: '${env:TOKEN_FROM_OUTSIDE}'}
map:
  input: [1, 2]
  agent_template:
    - shell: |
        echo "plain $TOKEN"; echo "also ${TOKEN}" >&2
        printf 'user:%s' "$TOKEN" | base64
        printf %s "$TOKEN" | cut -c1-8 | tr -d '\n'; sleep 0.1; printf '%s\n' "$TOKEN" | cut -c9-
        i=0; while [ $i -lt 3000 ]; do echo "$i $TOKEN"; i=$((i+1)); done
      capture: got
    - claude: "/say the secret is ${TOKEN}"
    - shell: echo "error with $TOKEN" >&2; echo "${got}"; exit ${item}
      retry: {attempts: 2, initial_delay: 1ms}
  label: "item $TOKEN ${item}"
reduce:
  - shell: echo "reduced $TOKEN"; test "$TOKEN" = "$TOKEN_FROM_OUTSIDE" && echo right > @EV@/x
  - shell: exit 1
    name: the secret ${TOKEN}
`

// TestSecretsAreMasked: nothing that is printed, stored or sent has a secret in it. The
// steps themselves get the secret.
func TestSecretsAreMasked(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range [][]string{nil, {"--json"}} {
		t.Run(strings.Join(mode, " "), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.write("flow.yml", leaky)
			bide := func(args ...string) string {
				cmd := exec.Command(self, args...)
				cmd.Dir = b.dir
				cmd.Env = append(b.opt.Environ, "BIDE_HOME="+b.home, "TOKEN_FROM_OUTSIDE="+secret, partVar+"=bide")
				out, err := cmd.CombinedOutput()
				if err != nil && cmd.ProcessState == nil {
					t.Fatal(err)
				}
				return string(out)
			}
			out := bide(append([]string{"run", "flow.yml"}, mode...)...)
			if err := os.WriteFile(filepath.Join(b.home, "shown"), []byte(out), 0o600); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, "***") {
				t.Errorf("nothing was masked in %q", out)
			}
			r := &ran{bench: b}
			r.want("x", "right")
			if got := leaks(t, b.home); len(got) > 0 {
				t.Errorf("the secret is in %v", got)
			}
		})
	}
}

// TestSecretsInEvents: events, summary and error of a run in this process.
func TestSecretsInEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.setenv("TOKEN_FROM_OUTSIDE", secret)
	r := b.run(leaky)
	r.status(event.Failed)
	texts := map[string]string{"shown": r.shown, "the summary": r.sum.Message}
	for i, c := range r.sum.Errors {
		texts[fmt.Sprint("error class ", i)] = c.Example
	}
	for i, e := range r.events {
		texts[fmt.Sprint("event ", i, e.Type)] = e.Message + e.Label + e.Item + string(e.Data)
	}
	masked := 0
	for where, text := range texts {
		masked += strings.Count(text, "***")
		if strings.Contains(text, "hunter2") || strings.Contains(text, "sieben") {
			t.Errorf("the secret is in %s: %.300s", where, text)
		}
	}
	if masked == 0 {
		t.Error("nothing was masked")
	}
	letters := 0
	for _, e := range r.of(event.ItemFinished) {
		if e.Status == event.DeadLettered {
			letters++
		}
	}
	if letters != 2 {
		t.Errorf("want two dead letters%s", r.story())
	}
}

// TestSecretProviders reads secrets of each kind. They win over everything else.
func TestSecretProviders(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.setenv("FROM_ENV", "secret of env")
	b.write("key.txt", "secret of file\n")
	r := b.run(`
env: {A: of env block, B: of env block}
secrets:
  A: {provider: env, key: FROM_ENV}
  B: {provider: file, key: key.txt}
  C: {provider: command, key: echo secret of command}
  D: ${env:FROM_ENV}
  E: FROM_ENV
  G: abc
commands:
  - shell: printf '%s,' "$A" "$B" "$C" "$D" "$G" > @EV@/x; echo "$A $B $C $D"
    env: {A: of the step}
  - shell: printf '%s,' "${A}" "${env.B}" "${env:C}" > @EV@/y
  - shell: echo "$E" > @EV@/e
`)
	r.status(event.Succeeded)
	r.want("x", "secret of env,secret of file,secret of command,secret of env,abc,")
	r.want("y", "secret of env,secret of file,secret of command,")
	if strings.Contains(r.shown, "secret") {
		t.Errorf("shown: %q", r.shown)
	}
	if !r.noted("shorter than 5") {
		t.Error("nobody is told that a short secret is not masked")
	}
}

// TestSecretProblems: a secret that does not exist is an error, and all of these are
// reported.
func TestSecretProblems(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
secrets:
  A: {provider: env, key: NOT_SET}
  B: {provider: file, key: no-such-file}
  C: {provider: command, key: exit 3}
commands: [{shell: echo a > @EV@/x}]
`)
	r.status(event.Failed)
	r.want("x", "-")
	for _, name := range []string{"secret A", "secret B", "secret C", "NOT_SET", "no-such-file"} {
		if !strings.Contains(r.sum.Message, name) {
			t.Errorf("the message does not name %s: %s", name, r.sum.Message)
		}
	}
}

// TestSecretsAfterResume: variables with secrets in them, plain and encoded, have the same
// values when the run continues, and nothing on the disk has them.
func TestSecretsAfterResume(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.setenv("TOKEN_FROM_OUTSIDE", secret)
	r := b.run(`
secrets: {TOKEN: '${env:TOKEN_FROM_OUTSIDE}'}
commands:
  - shell: printf '*** user:%s\n' "$TOKEN"
    capture: plain
  - shell: printf 'user:%s' "$TOKEN" | base64 -w 0
    capture: code
  - shell: printf '{"a/b":[1,{"k":"%s"}]}' "$TOKEN"
    capture: doc
    capture_format: json
  - shell: test -e @EV@/go
  - shell: |
      test "${plain}" = "*** user:$TOKEN_FROM_OUTSIDE" && echo plain >> @EV@/x
      test "$(printf %s "${code}" | base64 -d)" = "user:$TOKEN_FROM_OUTSIDE" && echo code >> @EV@/x
      test "${doc|json}" = "$(printf '{"a/b":[1,{"k":"%s"}]}' "$TOKEN_FROM_OUTSIDE")" && echo doc >> @EV@/x
      echo "${plain}"
`)
	r.status(event.Failed)
	b.touch("go")
	again := b.resume(t.Context())
	again.status(event.Succeeded)
	again.want("x", "plain\ncode\ndoc")
	if got := leaks(t, b.home); len(got) > 0 {
		t.Errorf("the secret is in %v", got)
	}
	if strings.Contains(again.shown, "hunter2") || !strings.Contains(again.shown, "*** user:***") {
		t.Errorf("shown: %q", again.shown)
	}
}

// TestForgottenSecret: a variable whose secret no longer exists keeps its mask, and the run
// says so.
func TestForgottenSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.setenv("TOKEN_FROM_OUTSIDE", secret)
	b.write("say.sh", `printf '%s%s' "$TOKEN" "$TOKEN"`)
	r := b.run(`
secrets: {TOKEN: '${env:TOKEN_FROM_OUTSIDE}'}
commands:
  - {shell: sh say.sh | rev | rev, capture: twice}
  - {shell: 'test -e @EV@/go'}
  - {shell: 'echo "${twice}" > @EV@/x'}
`)
	r.status(event.Failed)
	b.touch("go")
	b.setenv("TOKEN_FROM_OUTSIDE", "rotated since then")
	again := b.resume(t.Context())
	again.status(event.Succeeded)
	again.want("x", "rotated since thenrotated since then")
}

// TestSecretsInItems: a work item with a secret in it reaches its steps unchanged, also
// after a resume, and nothing else gets the secret.
func TestSecretsInItems(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.setenv("TOKEN_FROM_OUTSIDE", secret)
	r := b.run(`
secrets: {TOKEN: '${env:TOKEN_FROM_OUTSIDE}'}
map:
  input: printf '[{"id":"%s","key":"k"},{"id":"one","key":"%s","n":1.50},{"id":"%s","key":"l"}]' "$TOKEN" "$TOKEN" "a $TOKEN"
  max_parallel: 1
  agent_template:
    - shell: test -e @EV@/go
    - shell: test "${item.key}" = "$TOKEN_FROM_OUTSIDE" && echo "${item.n}" >> @EV@/x; echo "${item.key} ${item_id}" >&2; test "${item.key}" != l
    - write_file: {path: 'no/${TOKEN}/x', content: a}
      allow_failure: true
error_policy: {on_item_failure: stop}
`)
	r.status(event.Failed)
	b.touch("go")
	again := b.resume(t.Context())
	again.want("x", "1.50")
	if got := leaks(t, b.home); len(got) > 0 {
		t.Errorf("the secret is in %v", got)
	}
	for _, e := range slices.Concat(r.events, again.events) {
		if text := e.Message + e.Label + e.Item + string(e.Data); strings.Contains(text, "hunter2") || strings.Contains(text, "sieben") {
			t.Errorf("the secret is in %s: %s", e.Type, text)
		}
	}
}

// A file that declares a secret loses nothing of a large output, and later steps read what
// the command wrote.
func TestSecretsLoseNoOutput(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.setenv("TOKEN_FROM_OUTSIDE", secret)
	r := b.run(`
secrets: {TOKEN: '${env:TOKEN_FROM_OUTSIDE}'}
commands:
- shell: awk 'BEGIN{for(i=0;i<30000;i++) print i, ENVIRON["TOKEN"], "and fifty bytes more, so that it becomes large"}'
  output_file: big.txt
- shell: wc -l < big.txt > @EV@/lines; grep -c "$TOKEN and" big.txt > @EV@/whole
- foreach: |
    awk 'BEGIN{for(i=0;i<10;i++){for(j=0;j<22000;j++)printf "0123456789"; print " " ENVIRON["TOKEN"]}}'
  do:
  - shell: echo right >> @EV@/rounds
    when: item ends_with env.TOKEN
`)
	r.status(event.Succeeded)
	for name, want := range map[string]string{"lines": "30000", "whole": "30000"} {
		if got := strings.TrimSpace(r.file(name)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := strings.Count(r.file("rounds"), "right"); got != 10 {
		t.Errorf("%d rounds of 10 had their item whole", got)
	}
	if got := leaks(t, b.home); len(got) > 0 {
		t.Errorf("the secret is in %v", got)
	}
}

// TestSecretParameters: the value of a secret parameter is nowhere in the home of a run. A
// resume needs the value again, and then continues with it.
func TestSecretParameters(t *testing.T) {
	t.Parallel()
	for name, secrets := range map[string]string{
		"by its name":      "secrets: {token: '${env:GIVEN}'}",
		"in another value": "secrets: {S: 'Bearer ${token}'}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.setenv("GIVEN", "sesame-12345")
			b.load.Params = map[string]string{"token": "sesame-12345", "other": "plain-value"}
			b.opt.Params = b.load.Params
			text := "parameters: {required: [{name: token}], optional: [{name: other}]}\n" + secrets +
				"\ncommands: [{shell: 'echo ${token} ${other}; test -e @EV@/go'}, {shell: 'case ${token} in sesame?12345) echo well > @EV@/x;; esac'}]\n"
			b.run(text).status(event.Failed)
			found := map[string]bool{}
			err := filepath.WalkDir(b.home, func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return err
				}
				got, err := os.ReadFile(path)
				for _, value := range []string{"sesame-12345", "plain-value"} {
					found[value] = found[value] || bytes.Contains(got, []byte(value))
				}
				return err
			})
			if err != nil || found["sesame-12345"] || !found["plain-value"] {
				t.Errorf("in the home: %v (%v)", found, err)
			}
			if err := os.WriteFile(filepath.Join(b.ev, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for given, want := range map[string]string{"": "--param token=", "other": "as it was recorded"} {
				b.opt.Params = nil
				if given != "" {
					b.opt.Params = map[string]string{"token": "sesame-12345", given: "x"}
				}
				if _, err := b.tryResume(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("a resume with %q: %v", given, err)
				}
			}
			b.opt.Params = map[string]string{"token": "sesame-12345"}
			b.resume(t.Context()).status(event.Succeeded)
			if got := (&ran{bench: b}).file("x"); got != "well" {
				t.Errorf("the step after it has %q", got)
			}
		})
	}
}
