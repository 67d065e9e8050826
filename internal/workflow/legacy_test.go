package workflow_test

import (
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

// TestFirstForms reads the forms of the first versions of the format.
func TestFirstForms(t *testing.T) {
	f := clean(t, `
workflow:
  commands:
    - name: look
      id: audit
      outputs:
        spec: {extract_from: {git_commit: {file_pattern: "specs/*.md"}}}
        issues: {extract_from: stdout}
    - name: mend
      args: [first]
      env: {B: c}
      inputs:
        second: {from: "${audit.issues}", pass_as: {argument: {position: 1}}}
        spec: {from: "${audit.spec}", pass_as: {argument: {position: 0}}}
        context: {from: "${audit.issues}", pass_as: {environment: {name: CONTEXT}}}
        more: {from: "read this", pass_as: stdin}
`)
	if len(f.Steps) != 2 {
		t.Fatalf("%d steps", len(f.Steps))
	}
	outs := f.Steps[0].Outputs
	if len(outs) != 2 || outs[0].FilePattern != "specs/*.md" || outs[1].Value == nil {
		t.Errorf("the outputs are %+v", outs)
	}
	if got, want := f.Steps[1].Action.(*workflow.Claude).Text.String(), "/mend first ${audit.spec} ${audit.issues}\nread this"; got != want {
		t.Errorf("the prompt is %q, want %q", got, want)
	}
	if env := f.Steps[1].Env; len(env) != 2 || env[0].Name != "CONTEXT" || env[0].Text.String() != "${audit.issues}" {
		t.Errorf("the environment is %+v", env)
	}
	for src, code := range map[string]string{
		"workflow: {commands: [{shell: a}]}\ncommands: [{shell: b}]":                                                                          "contradiction",
		"workflow: deploy\ncommands: [{shell: b}]":                                                                                            "wrong-type",
		"commands: [{name: a, inputs: {x: {pass_as: stdin}}}]":                                                                                "missing-key",
		"commands: [{name: a, inputs: {x: {from: b, pass_as: file}}}]":                                                                        "bad-value",
		"commands: [{name: a, inputs: {x: {from: b, pass_as: {argument: {position: 0}}}, y: {from: b, pass_as: {argument: {position: 0}}}}}]": "contradiction",
		"commands: [{name: a, outputs: {x: {extract_from: stderr}}}]":                                                                         "bad-value",
	} {
		_, problems := parse(t, src)
		if len(problems) != 1 || !problems.HasErrors() || problems[0].Code != code {
			t.Errorf("%s\n%v, want %s", src, problems, code)
		}
	}
}
