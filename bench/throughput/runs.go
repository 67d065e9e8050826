package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// floor runs this program as the floor.
func (b *bench) floor(items int, more ...string) (sample, error) {
	return measure(exec.Command(b.self, append([]string{"floor", "-items", strconv.Itoa(items)}, more...)...), items)
}

// parallel runs GNU parallel with a log of its jobs.
func (b *bench) parallel(path string, items int) (sample, error) {
	input, log := filepath.Join(b.dir, "list"), filepath.Join(b.dir, "joblog")
	if err := writeLines(input, items, func(i int) string { return strconv.Itoa(i) }); err != nil {
		return sample{}, err
	}
	if err := os.RemoveAll(log); err != nil {
		return sample{}, err
	}
	return measure(exec.Command(path, "--will-cite", "-j2", "--joblog", log, "-a", input, "/bin/true"), items)
}

// run is `bide run` of a map over so many items. head is put before the
// workflow.
func (b *bench) run(items int, head string) (sample, error) {
	return b.runMap("map", items, head, "", "/bin/true ${item.id}")
}

// runMap is `bide run` of a map of so many items, with more among its fields.
func (b *bench) runMap(name string, items int, head, more, command string) (sample, error) {
	path, err := b.workflow(name, list{items, 0}, head, more, command)
	if err != nil {
		return sample{}, err
	}
	cmd, clean, err := b.command("run", path)
	if err != nil {
		return sample{}, err
	}
	defer clean()
	return measure(cmd, items)
}

// command is a bide with a state directory of its own. Its summary is left to
// its exit status.
func (b *bench) command(args ...string) (*exec.Cmd, func(), error) {
	home, err := os.MkdirTemp(b.dir, "home-")
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(b.bide, args...)
	cmd.Env = append(os.Environ(), "BIDE_HOME="+home)
	return cmd, func() { _ = os.RemoveAll(home) }, nil // the whole of b.dir goes at the end
}

// list is a list of work items: how many, and how many bytes each line has at
// least.
type list struct {
	items, width int
}

func (l list) line(i int) string {
	text := fmt.Sprintf(`{"id":%d,"group":%d,"tenth":%d,"name":"item-%d"`, i, i%1000, i%10, i)
	if n := l.width - len(text) - len(`,"pad":""}`) - 1; n > 0 {
		text += fmt.Sprintf(`,"pad":%q`, strings.Repeat("x", n))
	}
	return text + "}"
}

// workflow writes a map over a list and gives its path. head is put before
// it, and more among the fields of the map.
func (b *bench) workflow(name string, l list, head, more, command string) (string, error) {
	return b.workflowOf(name, l, 2, head, more, command)
}

// workflowOf is workflow with so many items at a time.
func (b *bench) workflowOf(name string, l list, parallel int, head, more, command string) (string, error) {
	input := filepath.Join(b.dir, name+".jsonl")
	if err := writeLines(input, l.items, l.line); err != nil {
		return "", err
	}
	text := head + "name: " + name + "\nmode: mapreduce\nmap:\n  input: " + input + "\n  json_path: \"$\"\n" + more +
		"  max_parallel: " + strconv.Itoa(parallel) + "\n  agent_template:\n    - shell: \"" + command + "\"\n"
	path := filepath.Join(b.dir, name+".yml")
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// writeLines writes a file of n lines.
func writeLines(path string, n int, line func(int) string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for i := range n {
		w.WriteString(line(i)) // the writer keeps its first error for Flush
		w.WriteByte('\n')
	}
	if err := w.Flush(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
