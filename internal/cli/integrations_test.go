package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"
)

func strict(t *testing.T, file string, into any) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Ext(file) == ".json" {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		err = dec.Decode(into)
	} else {
		dec := yaml.NewDecoder(bytes.NewReader(text))
		dec.KnownFields(true)
		err = dec.Decode(into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return text
}

// The hooks of pre-commit name commands that bide has, and files that it reads.
func TestPreCommitHooks(t *testing.T) {
	t.Parallel()
	var hooks []struct {
		ID, Name, Description, Entry, Language, Files string
	}
	strict(t, "../../.pre-commit-hooks.yaml", &hooks)
	if len(hooks) != 2 {
		t.Fatalf("%d hooks", len(hooks))
	}
	for _, h := range hooks {
		a, _, _ := newApp()
		line := strings.Fields(h.Entry)
		if h.Language != "golang" || line[0] != "bide" {
			t.Errorf("%s: language %q, entry %q", h.ID, h.Language, h.Entry)
		} else if err := understood(a.root(), append(line[1:], "x.cst")); err != nil {
			t.Errorf("%s: %s: %v", h.ID, h.Entry, err)
		}
		files := regexp.MustCompile(h.Files)
		if !files.MatchString("a/b.cst") || files.MatchString("docker-compose.yml") || files.MatchString("a.cst.txt") {
			t.Errorf("%s takes the wrong files: %s", h.ID, h.Files)
		}
	}
}

// actionFile is the form of a composite action, of which nothing else is known.
type actionFile struct {
	Name, Description string
	Branding          struct{ Icon, Color string }
	Inputs            map[string]struct {
		Description, Default string
		Required             bool
	}
	Runs struct {
		Using string
		Steps []struct {
			Name, Uses, Shell, Run string
			With, Env              map[string]string
			WorkingDirectory       string `yaml:"working-directory"`
		}
	}
}

// What an input of the action says reaches the shell as a variable, and its
// words reach bide as they are quoted.
func TestAction(t *testing.T) {
	t.Parallel()
	var act actionFile
	text := strict(t, "../../action.yml", &act)
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`\$\{\{ inputs\.([a-z-]+) \}\}`).FindAllSubmatch(text, -1) {
		used[string(m[1])] = true
	}
	for name, in := range act.Inputs {
		if !used[name] || in.Description == "" || !in.Required && in.Default == "" {
			t.Errorf("the input %s is not used, or lacks a description or a default", name)
		}
	}
	run := ""
	for _, s := range act.Runs.Steps {
		if strings.Contains(s.Run, "${{") {
			t.Errorf("an input is pasted into code: %s", s.Run)
		}
		if s.Run != "" && s.Shell != "bash" {
			t.Errorf("a step without a shell: %+v", s)
		}
		run = s.Run
	}
	if act.Runs.Using != "composite" || len(act.Runs.Steps) != 3 {
		t.Fatalf("%+v", act.Runs)
	}
	dir := t.TempDir()
	script(t, filepath.Join(dir, "go"), "#!/bin/sh\necho "+dir+"\n")
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	script(t, filepath.Join(dir, "bin", "bide"), "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 3\n")
	cmd := exec.Command("bash", "-e", "-c", run)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "BIDE_ARGS=exec --attempts 3 -- sh -c 'echo \"a  b\"'")
	out, err := cmd.Output() // bash may warn of the locale
	if want := `<exec><--attempts><3><--><sh><-c><echo "a  b">`; string(out) != want || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("%s (%v), want %s and exit status 3", out, err, want)
	}
}

func script(t *testing.T, file, text string) {
	t.Helper()
	// What is run must not be open for writing in a child that another test forks.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// The extension of VS Code is what its manifest says: its files are there, its
// script is JavaScript, and its settings are those that it reads.
func TestExtension(t *testing.T) {
	t.Parallel()
	const dir = "../../editors/vscode/"
	var m struct {
		Name, DisplayName, Description, Publisher, Version, License, Main string
		Private                                                           bool
		Repository                                                        struct{ Type, URL, Directory string }
		Engines, Dependencies                                             map[string]string
		Categories, ActivationEvents                                      []string
		Contributes                                                       struct {
			Languages []struct {
				ID, Configuration                     string
				Aliases, Extensions, FilenamePatterns []string
			}
			Configuration struct {
				Title      string
				Properties map[string]struct{ Type, Default, Scope, Description string }
			}
		}
	}
	strict(t, dir+"package.json", &m)
	code, err := os.ReadFile(dir + m.Main)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range m.Contributes.Languages {
		if !bytes.Contains(code, []byte(`language: "`+l.ID+`"`)) {
			t.Errorf("the client does not serve %s", l.ID)
		}
		if l.Configuration != "" {
			var any map[string]any
			strict(t, dir+l.Configuration, &any)
		}
	}
	for name := range m.Contributes.Configuration.Properties {
		if !bytes.Contains(code, []byte(`settings.get("`+strings.TrimPrefix(name, "bide.")+`")`)) {
			t.Errorf("the setting %s is not read", name)
		}
	}
	for _, need := range regexp.MustCompile(`require\("([a-z-]+)`).FindAllSubmatch(code, -1) {
		if name := string(need[1]); name != "vscode" && m.Dependencies[name] == "" || m.Engines["vscode"] == "" {
			t.Errorf("%s is required and not declared", name)
		}
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node here to read the script")
	}
	if out, err := exec.Command(node, "--check", dir+"extension.js").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
