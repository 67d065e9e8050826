package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// linted has the linters of others read what the archive holds, unpacked in a
// folder, and what editors and services read of the repository. It says which
// linter is not there.
func linted(root, unpacked string) error {
	pages, err := filepath.Glob(filepath.Join(unpacked, "man", "*.1"))
	if err != nil || len(pages) == 0 {
		return errors.Join(err, errors.New("the archive has no manual pages"))
	}
	checks := [][]string{
		// Long lines are a matter of style; what it warns of, readers would see.
		append([]string{"mandoc", "-Tlint", "-Wwarning"}, pages...),
		{"bash", "-n", filepath.Join(unpacked, "completions/bide.bash")},
		{"zsh", "-n", filepath.Join(unpacked, "completions/_bide")},
		{"fish", "-n", filepath.Join(unpacked, "completions/bide.fish")},
		{"pre-commit", "validate-manifest", filepath.Join(root, ".pre-commit-hooks.yaml")},
	}
	for _, c := range checks {
		switch said, err := exec.Command(c[0], c[1:]...).CombinedOutput(); {
		case errors.Is(err, exec.ErrNotFound):
			fmt.Printf("not looked at: there is no %s here\n", c[0])
		case err != nil:
			return fmt.Errorf("%s %s: %w\n%s", c[0], c[1], err, said)
		default:
			fmt.Printf("%s finds nothing\n", c[0])
		}
	}
	return errors.Join(image(unpacked), service(root))
}

// image looks whether what the image is made from is in the archive.
func image(unpacked string) error {
	text, err := os.ReadFile(filepath.Join(unpacked, dockerfile))
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == "COPY" {
			n++
			if _, err := os.Stat(filepath.Join(unpacked, words[1])); err != nil {
				return fmt.Errorf("the image copies what the archive does not have: %w", err)
			}
		}
	}
	if n == 0 {
		return errors.New("the image copies nothing")
	}
	fmt.Printf("the image's %d files are in the archive\n", n)
	return nil
}

// service has actionlint read the action of this repository, by a workflow that
// uses it: once as the pages show it, and once with an input that there is not.
func service(root string) error {
	action, err := os.ReadFile(filepath.Join(root, "action.yml"))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bide-action")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := write(filepath.Join(dir, "action.yml"), action); err != nil {
		return err
	}
	lint := func(input string) ([]byte, error) {
		file := filepath.Join(dir, ".github/workflows/test.yml")
		text := "on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v4\n      - uses: ./\n        with: {" + input + "}\n"
		if err := write(file, []byte(text)); err != nil {
			return nil, err
		}
		cmd := exec.Command("go", "tool", "actionlint", "-no-color", file)
		cmd.Dir = filepath.Join(root, "release")
		return cmd.CombinedOutput()
	}
	if err := run(dir, nil, "git", "init", "-q"); err != nil { // what is no repository has no local actions
		return err
	}
	if said, err := lint("args: exec --attempts 3 -- make test"); err != nil {
		return fmt.Errorf("actionlint: %w\n%s", err, said)
	}
	if said, err := lint("arguments: make"); err == nil || !strings.Contains(string(said), `"arguments" is not defined`) {
		return fmt.Errorf("actionlint did not read the action: %v\n%s", err, said)
	}
	fmt.Println("actionlint finds nothing")
	return nil
}
