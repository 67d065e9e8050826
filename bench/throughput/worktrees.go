package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// plainLoop does by hand what an isolated item that commits does: add a
// worktree, commit in it, merge it, remove it. $1 is the number of items, $2 how
// many at a time. Whatever changes what the worktrees have in common is done one
// at a time, as it has to be: git that adds a worktree while another one is made
// or removed meets it half written, and fails.
const plainLoop = `
set -e
item='set -e
flock .git/shared git worktree add -q -b "item-$1" "../tree-$1" HEAD
cd "../tree-$1"
echo "$1" >"file-$1"
git add . && git commit -qm "item $1"
cd "$OLDPWD"
flock .git/shared git merge -q --no-ff -m "merge $1" "item-$1"
flock .git/shared git worktree remove "../tree-$1"
flock .git/shared git branch -qD "item-$1"'
seq "$1" | xargs -P "$2" -I{} sh -c "$item" item {}
`

// worktrees compares isolated items with the plain loop, and takes the time of
// items that do nothing in their worktrees.
func (b *bench) worktrees(rounds int) ([]promise, error) {
	if _, err := exec.LookPath("git"); err != nil {
		fmt.Println("\nworktrees are left out: git is not installed")
		return nil, nil
	}
	const items = 50
	var promises []promise
	for _, parallel := range []int{1, 2} {
		loop := &contender{name: fmt.Sprintf("plain loop of git, %d at a time", parallel), run: func() (sample, error) {
			return b.inRepository(items, func() (*exec.Cmd, func(), error) {
				return exec.Command("sh", "-c", plainLoop, "sh", strconv.Itoa(items), strconv.Itoa(parallel)), func() {}, nil
			})
		}}
		ours := &contender{name: fmt.Sprintf("bide run, isolated, %d at a time", parallel), run: func() (sample, error) {
			return b.isolated(items, parallel, "echo ${item.id} >file-${item.id} && git add . && git commit -qm 'item ${item.id}'")
		}}
		if err := rotate(rounds, loop, ours); err != nil {
			return nil, err
		}
		fmt.Println()
		table([]*contender{loop, ours}, loop)
		promises = append(promises, promise{fmt.Sprintf("items/s of isolated commits beside the plain loop, %d at a time", parallel), ratio(ours, loop), 0.9, true})
	}
	trivial := &contender{name: "100 trivial items, isolated", run: func() (sample, error) { return b.isolated(100, 2, "/bin/true ${item.id}") }}
	if err := rotate(rounds, trivial); err != nil {
		return nil, err
	}
	seconds := median(trivial.all, func(s sample) float64 { return s.wall.Seconds() })
	fmt.Printf("\n100 trivial items, isolated: %.2f s\n", seconds)
	return append(promises, promise{"100 trivial items, isolated, s", seconds, 0.5, false}), nil
}

// isolated is `bide run` of a map whose items have worktrees of their own.
func (b *bench) isolated(items, parallel int, command string) (sample, error) {
	path, err := b.workflowOf("isolated", list{items, 0}, parallel, "isolation: worktree\n", "", command)
	if err != nil {
		return sample{}, err
	}
	return b.inRepository(items, func() (*exec.Cmd, func(), error) { return b.command("run", "--yes", path) })
}

// inRepository measures a command in a new repository of a few files.
func (b *bench) inRepository(items int, command func() (*exec.Cmd, func(), error)) (_ sample, err error) {
	outer, err := os.MkdirTemp(b.dir, "repository-")
	if err != nil {
		return sample{}, err
	}
	defer func() { _ = os.RemoveAll(outer) }() // the whole of b.dir goes at the end
	dir := filepath.Join(outer, "main")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return sample{}, err
	}
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("source-%d", i)), []byte("text\n"), 0o600); err != nil {
			return sample{}, err
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"config", "user.name", "bench"}, {"config", "user.email", "bench@example.org"},
		{"config", "gc.auto", "0"}, {"add", "."}, {"commit", "-qm", "first"},
	} {
		git := exec.Command("git", args...)
		git.Dir = dir
		if out, err := git.CombinedOutput(); err != nil {
			return sample{}, fmt.Errorf("git %s: %w\n%s", args[0], err, out)
		}
	}
	cmd, clean, err := command()
	if err != nil {
		return sample{}, err
	}
	defer clean()
	cmd.Dir = dir
	return measure(cmd, items)
}
