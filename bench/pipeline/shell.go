package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// elements are those of the map over a shell module.
const elements = 2000

// command is what each element runs: it reads its input as JSON and prints a
// result as JSON.
var command = []string{"/bin/cat"}

// floorMain starts the command for each element as plainly as os/exec can, two
// at a time, with its input and its output, and reads what it prints.
func floorMain() error {
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, 2)
	for w := range errs {
		all.Go(func() {
			for i := next.Add(1); i <= elements && errs[w] == nil; i = next.Add(1) {
				var out bytes.Buffer
				cmd := exec.Command(command[0], command[1:]...)
				cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(fmt.Sprintf(`{"x": %d}`, i)), &out, &bytes.Buffer{}
				cmd.Env = append(os.Environ(), "INPUT_X="+strconv.Itoa(int(i)))
				var v any
				if errs[w] = cmd.Run(); errs[w] == nil {
					errs[w] = json.Unmarshal(out.Bytes(), &v)
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// shells is a map of a shell module over a list, in a recorded run, beside the
// floor: both as programs, in turn. The ratio is that of their rates, at least.
func shells() (row, error) {
	dir, err := os.MkdirTemp("", "bide-pipeline-")
	if err != nil {
		return row{}, err
	}
	defer os.RemoveAll(dir)
	bide := filepath.Join(dir, "bide")
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/bide-dev/bide").Output()
	if err != nil {
		return row{}, fmt.Errorf("finding the module of bide: %w", err)
	}
	build := exec.Command("go", "build", "-o", bide, "./cmd/bide")
	build.Dir = strings.TrimSpace(string(root)) // a module of its own, with its own dependencies
	if out, err := build.CombinedOutput(); err != nil {
		return row{}, fmt.Errorf("go build: %w\n%s", err, out)
	}
	list := make([]int, elements)
	for i := range list {
		list[i] = i + 1
	}
	inputs, err := json.Marshal(map[string]any{"xs": list})
	if err != nil {
		return row{}, err
	}
	for name, text := range map[string]string{
		"modules.yml": "modules: [{name: Each, params: {x: Int}, result: {x: Int}, shell: [" + strings.Join(command, ", ") + "]}]\n",
		"inputs.json": string(inputs),
		"map.cst":     "in xs: List<Int>\nys = map(xs, (x) => Each(x))\nout n = list-length(ys)\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return row{}, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return row{}, err
	}
	run := func(cmd *exec.Cmd) (time.Duration, error) {
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "BIDE_HOME="+filepath.Join(dir, "home"))
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
		return time.Since(began), nil
	}
	const rounds = 5
	var floors, ours []time.Duration
	var rates []float64
	for range rounds {
		floor, err := run(exec.Command(self, "floor"))
		if err != nil {
			return row{}, err
		}
		our, err := run(exec.Command(bide, "run", "--quiet", "--max-parallel", "2", "--inputs", "inputs.json", "map.cst"))
		if err != nil {
			return row{}, err
		}
		floors, ours, rates = append(floors, floor), append(ours, our), append(rates, float64(floor)/float64(our))
	}
	slices.Sort(floors)
	slices.Sort(ours)
	slices.Sort(rates)
	fmt.Fprintf(os.Stderr, "map of a shell module: rates beside the floor %.2f\n", rates)
	return row{what: fmt.Sprintf("a map of a shell module over %d elements, to bare os/exec", elements),
		got: ours[rounds/2], base: floors[rounds/2], ratio: 1 / 0.9, had: 1 / rates[rounds/2]}, nil
}
