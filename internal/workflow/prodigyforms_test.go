package workflow_test

import (
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
		{"env: {A: {secret: true, value: x}, B: {secret: true, value: '${env:C}'}, D: {secret: true, provider: file, key: k}}\ncommands: [{shell: a}]", func(f *workflow.File) bool {
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
