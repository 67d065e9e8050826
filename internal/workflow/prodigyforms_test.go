package workflow_test

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

// TestDocumentedForms reads spellings that the format's documentation has, and
// asks what became of them.
func TestDocumentedForms(t *testing.T) {
	for _, c := range []struct {
		src  string
		want func(f *workflow.File) bool
	}{
		{"commands: [{shell: a, capture: b, capture_streams: 'stderr, exit_code'}]", func(f *workflow.File) bool {
			return f.Steps[0].Capture.Streams == workflow.Streams{Stderr: true, ExitCode: true}
		}},
		{"commands: [{shell: a, capture: b, capture_streams: [stdout, stderr]}]", func(f *workflow.File) bool {
			return f.Steps[0].Capture.Streams == workflow.Streams{Stdout: true, Stderr: true}
		}},
		{"env_files: [a.env, {path: b.env, required: true}]\ncommands: [{shell: a}]", func(f *workflow.File) bool {
			return len(f.EnvFiles) == 2 && !f.EnvFiles[0].Required && f.EnvFiles[1].Required && f.EnvFiles[1].Path.String() == "b.env"
		}},
		{"env: {A: {secret: true, value: 'x${uuid}'}, B: {secret: true, value: '${env:C}'}, D: {secret: true, provider: file, key: k}}\ncommands: [{shell: a}]", func(f *workflow.File) bool {
			return len(f.Env) == 0 && len(f.Secrets) == 3 && f.Secrets[0].Provider == "value" && f.Secrets[1].Provider == "env" && f.Secrets[2].Provider == "file"
		}},
		{"env: {A: {default: x, prod: y}}\ncommands: [{shell: a}]", func(f *workflow.File) bool {
			return len(f.Env) == 1 && f.Env[0].Text.String() == "x" && f.Profiles["prod"][0].Text.String() == "y"
		}},
		{"commands: [{shell: a, max_attempts: 4}]", func(f *workflow.File) bool { return f.Steps[0].Retry.Attempts == 4 }},
		{"commands: [{shell: a, on_success: {shell: b, claude: /c}}]", func(f *workflow.File) bool { return briefs(f.Steps[0].OnSuccess) == "shell:b claude:/c" }},
		{"commands: [{shell: a, on_failure: {claude: /c, shell: b, max_attempts: 2}}]", func(f *workflow.File) bool {
			h := f.Steps[0].OnFailure
			return briefs(h.Steps) == "claude:/c shell:b" && h.MaxAttempts == 2 && h.Rerun
		}},
		{"commands: [{command: 'shell: make'}, {command: 'claude: look at it'}, {command: review}]", func(f *workflow.File) bool {
			return briefs(f.Steps) == "shell:make claude:look at it claude:/review"
		}},
		{"map: {input: [1], agent_template: [{shell: a}], timeout_config: {agent_timeout_secs: 100, timeout_policy: per_command}}", func(f *workflow.File) bool {
			return f.Map.TimeoutPolicy == "per_command"
		}},
		{"commands: [{shell: 'a ${step.files_added:*.md:lines} ${workflow.commits:csv} ${step.files_added|pattern:**/*.go|basename}', when: '${step.files_added:*.go}'}]", func(f *workflow.File) bool {
			return f.Steps[0].When != nil
		}},
	} {
		f, problems := parse(t, c.src)
		if len(problems) > 0 {
			t.Errorf("%s\n%v", c.src, problems)
			continue
		}
		if !c.want(f) {
			t.Errorf("%s\nis not read as it is meant", c.src)
		}
	}
}

// TestParameterPattern: a validation that begins with ^ is a regular expression
// for the value.
func TestParameterPattern(t *testing.T) {
	const file = "parameters: {required: [{name: stage, type: string, validation: '^(dev|prod)$'}, {name: n, type: number, default: 7, validation: '^[0-9]$'}]}\ncommands: [{shell: 'echo ${stage}'}]"
	for stage, want := range map[string]string{"dev": "", "develop": "bad-parameter"} {
		_, problems := workflow.Parse("flow.yml", []byte(file), workflow.Options{Params: map[string]string{"stage": stage}})
		code := ""
		for _, p := range problems {
			code = p.Code
		}
		if code != want {
			t.Errorf("%s: %q, want %q: %v", stage, code, want, problems)
		}
	}
	_, problems := workflow.Parse("flow.yml", []byte(strings.ReplaceAll(file, "^(dev", "^(dev(")), workflow.Options{Params: map[string]string{"stage": "dev"}})
	if len(problems) != 1 || problems[0].Code != "bad-regexp" {
		t.Errorf("%v", problems)
	}
}

// TestForeignProvider: one error for a provider of secrets that is not here, in
// whichever form.
func TestForeignProvider(t *testing.T) {
	for _, provider := range []string{"vault", "{custom: mine}", "{a: 1, b: 2}"} {
		_, problems := parse(t, "secrets: {S: {provider: "+provider+", key: a, version: 1}}\ncommands: [{shell: a}]")
		if len(problems) != 1 || problems[0].Code != "unknown-provider" {
			t.Errorf("%s: %v", provider, problems)
		}
	}
}
