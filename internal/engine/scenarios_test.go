package engine_test

import (
	"os"
	"path/filepath"

	"github.com/bide-dev/bide/internal/crashtest"
)

// The scenarios that the enumerations play: each is a workflow, with what must be there at
// its end.

// inWorktree is what the preparation of a worktree leaves in its files.
const inWorktree = "env\ndep\nmore\n"

// What the steps of an item leave in the scene of item rounds.
const (
	itemLeft   = "left 1\nleft 2\n"
	itemRounds = "1\n2\n" + itemLeft + "mended\n"
)

// scenario is a workflow with its expected results.
type scenario struct {
	flow string
	repo bool
	want map[string]string // content of files on the branch main, and in the checkout
	left map[string]string // content of files in $EV
	once []string          // subjects of commits that the branch has once
	// status is the exit status at the end. kept is the content of files that are kept
	// outside the branch main: in another branch, or in a repository that was moved aside.
	status int
	kept   map[string]string
	gone   []string // files that main does not have
	// lost are the steps whose work is lost according to the record.
	lost []string
	// before, if not nil, runs before the command whose effects are enumerated. That
	// command is does, or then resume, and otherwise run.
	before func(x *stage)
	does   []string
	// resumed says that the run is not at its end by that command, and is resumed.
	resumed bool
	// powered says that the power is never cut.
	powered bool
}

var scenarios = map[string]scenario{
	"plain": {
		flow: `
name: enumerate
mode: mapreduce
isolation: none
map:
  input: printf 'a\nb\nc\n'
  max_parallel: 1
  agent_template:
    - shell: head -c 20000 /dev/zero | tr '\0' ${item}; echo
reduce:
  - shell: set -e; cp "${map.results_file}" results.jsonl; grep -oE 'a{900}|b{900}|c{900}' results.jsonl | cut -c1 | tr -d '\n' | tr -s abc > $EV/results
`,
		left: map[string]string{"results": "abc"},
	},
	"worktrees": {
		repo: true,
		flow: `
name: enumerate
mode: mapreduce
isolation: worktree
error_policy:
  retry_config: {max_attempts: 9, initial_delay: 1ms, backoff: fixed}
map:
  input: printf 'a\nb\nc\n'
  max_parallel: 1
  agent_template:
    - shell: set -e; mkdir -p d-${item}; for i in 1 2 3; do echo "${item} $i" > d-${item}/$i; done
    - shell: if [ ${item} = b ] && [ ! -e $EV/tried ]; then touch $EV/tried; exit 1; fi
    - shell: set -e; cat d-${item}/* > sum-${item}; git add -A; git commit -qm "made ${item}"
reduce:
  - shell: set -e; cat sum-a sum-b sum-c > total; git add total; git diff --cached --quiet || git commit -qm total
`,
		want: map[string]string{
			"first.txt": "first\n",
			"d-a/1":     "a 1\n", "d-a/2": "a 2\n", "d-a/3": "a 3\n",
			"d-b/1": "b 1\n", "d-b/2": "b 2\n", "d-b/3": "b 3\n",
			"d-c/1": "c 1\n", "d-c/2": "c 2\n", "d-c/3": "c 3\n",
			"sum-a": "a 1\na 2\na 3\n", "sum-b": "b 1\nb 2\nb 3\n", "sum-c": "c 1\nc 2\nc 3\n",
			"total": "a 1\na 2\na 3\nb 1\nb 2\nb 3\nc 1\nc 2\nc 3\n",
		},
		once: []string{"made a", "made b", "made c", "total"},
	},
	"queue": {
		repo: true,
		flow: `
name: enumerate
mode: mapreduce
isolation: worktree
error_policy:
  same_error: {probe: {initial_delay: 10ms, backoff: fixed}}
  retry_config: {max_attempts: 9, initial_delay: 1ms, backoff: fixed}
map:
  input: printf 'a\nb\nc\n'
  max_parallel: 1
  agent_template:
    - shell: set -e; echo "${item}" > own-${item}; git add -A; git commit -qm "made ${item}"
    - shell: echo left > left-${item}
merge_queue:
  batch: 2
  flaky: 0
  verify: test -z "$(cat own-* | sort | uniq -d)"
reduce:
  - shell: set -e; cat own-a own-b own-c > total; git add total; git diff --cached --quiet || git commit -qm total
`,
		want: map[string]string{
			"first.txt": "first\n", "total": "a\nb\nc\n",
			"own-a": "a\n", "own-b": "b\n", "own-c": "c\n", "left-a": "left\n", "left-b": "left\n", "left-c": "left\n",
		},
		once: []string{"made a", "made b", "made c", "total"},
	},
	"conflict": {
		repo: true,
		flow: `
name: enumerate
mode: mapreduce
isolation: worktree
map:
  input: printf 'a\nb\n'
  max_parallel: 2
  agent_template:
    - shell: set -e; echo "${item}" > own-${item}; echo "${item}" > both; git add -A; git commit -qm "made ${item}"
merge:
  - shell: |
      set -e
      if [ -e "$(git rev-parse --git-path MERGE_HEAD)" ]; then printf 'a\nb\n' > both; git add both; git commit -qm resolved; fi
`,
		want: map[string]string{"first.txt": "first\n", "own-a": "a\n", "own-b": "b\n"},
		once: []string{"made a", "made b"},
	},
	// Two items have a conflict, and the second attempt of one starts from what is merged.
	"again": {
		repo: true,
		flow: `
name: enumerate
mode: mapreduce
isolation: worktree
error_policy:
  retry_config: {max_attempts: 9, initial_delay: 1ms, backoff: fixed}
setup:
  - shell: set -e; echo setup > setup.txt
map:
  input: printf 'a\nb\n'
  max_parallel: 2
  agent_template:
    - shell: |
        set -e
        echo ${item} >> $EV/begun; for i in $(seq 50); do [ $(wc -l < $EV/begun) -ge 2 ] && break; sleep 0.02; done
        cat setup.txt > own-${item}; touch both; { cat both; echo ${item}; } | sort -u > both.new; mv both.new both
`,
		want: map[string]string{"first.txt": "first\n", "setup.txt": "setup\n", "own-a": "setup\n", "own-b": "setup\n", "both": "a\nb\n"},
		gone: []string{"both.new"},
	},
	"left": {
		repo: true,
		flow: `
name: enumerate
mode: mapreduce
isolation: worktree
map:
  input: printf 'a\n'
  agent_template:
    - shell: set -e; echo "${item}" > own-${item}; git add -A; git commit -qm "made ${item}"
    - shell: echo left > left-${item}
      auto_commit: false
reduce:
  - shell: set -e; rm -rf inner; git init -q inner; echo inner > inner/file; echo mine > uncommitted
    auto_commit: false
`,
		status: 3,
		want:   map[string]string{"first.txt": "first\n", "own-a": "a\n"},
		kept:   map[string]string{"left-a": "left\n", "uncommitted": "mine\n", "inner/file": "inner\n"},
		once:   []string{"made a"},
	},
	"own repository": {
		repo: true,
		flow: `
name: enumerate
isolation: worktree
commands:
  - shell: set -e; rm -rf inner; git init -q inner; echo inner > inner/file; git add first.txt
    auto_commit: false
`,
		status: 3,
		want:   map[string]string{"first.txt": "first\n"},
		kept:   map[string]string{"inner/file": "inner\n"},
	},
	"setup": {
		repo: true,
		flow: `
name: enumerate
mode: mapreduce
isolation: worktree
error_policy:
  retry_config: {max_attempts: 9, initial_delay: 1ms, backoff: fixed}
setup:
  - shell: set -e; echo list > listed; echo gone > removed
map:
  input: printf 'a\nb\n'
  max_parallel: 2
  agent_template:
    - shell: set -e; cat listed > copy-${item}; if [ ${item} = a ]; then rm -f removed; fi
reduce:
  - shell: cat copy-a copy-b > both
`,
		want: map[string]string{"first.txt": "first\n", "listed": "list\n", "copy-a": "list\n", "copy-b": "list\n", "both": "list\nlist\n"},
		gone: []string{"removed"},
	},
	// Each worktree is prepared with files that git ignores.
	"prepared": {
		repo: true,
		flow: `
name: enumerate
mode: mapreduce
isolation: worktree
worktree:
  copy: [.env]
  setup: set -e; mkdir -p deps; echo dep > deps/d; echo more > deps/e
error_policy:
  retry_config: {max_attempts: 2, initial_delay: 1ms, backoff: fixed}
map:
  input: printf 'a\nb\n'
  max_parallel: 1
  agent_template:
    - shell: set -e; cat .env deps/d deps/e > own-${item}; git add own-${item}; git diff --cached --quiet || git commit -qm "made ${item}"
    - shell: set -e; cat .env deps/d deps/e > left-${item}
reduce:
  - shell: set -e; cat .env deps/d deps/e own-a left-b > total
`,
		want:   map[string]string{"first.txt": "first\n", "own-a": inWorktree, "own-b": inWorktree, "left-a": inWorktree, "left-b": inWorktree, "total": inWorktree + inWorktree + inWorktree},
		once:   []string{"made a", "made b"},
		does:   []string{"run", "-y", "flow.yml"},
		before: func(x *stage) { x.env("deps/\n.env\n") },
	},
	"rounds": {
		repo: true,
		flow: `
name: enumerate
isolation: worktree
commands:
  - foreach: printf 'a\nb\n'
    do:
      - shell: set -e; echo ${item} > f-${item}; git add f-${item}; git diff --cached --quiet || git commit -qm "made ${item}"
  - shell: test -e mended
    on_failure:
      shell: echo mended > mended
      max_attempts: 3
  - shell: cat f-a f-b mended > all
`,
		want: map[string]string{"first.txt": "first\n", "f-a": "a\n", "f-b": "b\n", "mended": "mended\n", "all": "a\nb\nmended\n"},
		once: []string{"made a", "made b"},
	},
	// The same within items, each of which has a worktree.
	"item rounds": {
		repo: true,
		flow: `
name: enumerate
mode: mapreduce
isolation: worktree
map:
  input: printf 'a\nb\n'
  max_parallel: 2
  agent_template:
    - foreach: printf '1\n2\n'
      do:
        - shell: set -e; echo ${item} > f-${item_index}-${item}; git add f-*; git diff --cached --quiet || git commit -qm "made ${item_index} ${item}"
        - shell: set -e; { cat left-${item_index} || true; echo left ${item}; } | sort -u > left.new; mv left.new left-${item_index}
    - shell: test -e mended-${item_index}
      on_failure:
        shell: echo mended > mended-${item_index}
        max_attempts: 3
    - shell: cat f-${item_index}-1 f-${item_index}-2 left-${item_index} mended-${item_index} > all-${item_index}
reduce:
  - shell: cat all-0 all-1 > total
`,
		want: map[string]string{
			"first.txt": "first\n", "f-0-1": "1\n", "f-0-2": "2\n", "f-1-1": "1\n", "f-1-2": "2\n", "mended-0": "mended\n", "mended-1": "mended\n",
			"left-0": itemLeft, "left-1": itemLeft, "all-0": itemRounds, "all-1": itemRounds, "total": itemRounds + itemRounds,
		},
		once: []string{"made 0 1", "made 0 2", "made 1 1", "made 1 2"},
	},
	// Steps commit twice, and cannot be run again after their own commits. A power cut may leave
	// neither commit and what was staged for both, of which the first then takes all.
	"two commits": {
		repo: true, powered: true,
		flow: `
name: enumerate
isolation: worktree
commands:
  - shell: set -e; echo a > a; git add a; git commit -qm one; echo b > b; git add b; git commit -qm two; echo loose > loose
  - shell: set -e; cat a b loose > c; git add c; git commit -qm three; echo d > d; git add d; git commit -qm four
`,
		want: map[string]string{"first.txt": "first\n", "a": "a\n", "b": "b\n", "c": "a\nb\nloose\n", "d": "d\n", "loose": "loose\n"},
		once: []string{"one", "two", "three", "four"},
	},
	"commits of items": {
		repo: true,
		flow: `
name: enumerate
mode: mapreduce
isolation: worktree
map:
  input: printf 'a\nb\n'
  max_parallel: 1
  agent_template:
    - shell: set -e; echo 1 > ${item}1; git add ${item}1; git commit -qm "one ${item}"; echo 2 > ${item}2; git add ${item}2; git commit -qm "two ${item}"; echo loose > loose-${item}
    - shell: set -e; git mv ${item}1 ${item}3; git commit -qm "three ${item}"; cat ${item}2 loose-${item} > ${item}4; git add ${item}4; git commit -qm "four ${item}"
reduce:
  - shell: cat a4 b4 > total
`,
		want: map[string]string{"first.txt": "first\n", "a3": "1\n", "b3": "1\n", "a2": "2\n", "b2": "2\n", "a4": "2\nloose\n", "b4": "2\nloose\n", "loose-a": "loose\n", "loose-b": "loose\n", "total": "2\nloose\n2\nloose\n"},
		gone: []string{"a1", "b1"},
		once: []string{"one a", "two a", "three a", "four a", "one b", "two b", "three b", "four b"},
	},
	// The steps run until they change nothing.
	"iterations": {
		repo: true,
		flow: `
name: enumerate
isolation: worktree
max_iterations: 4
commands:
  - shell: set -e; n=$(($(git ls-files 'r-*' | wc -l) + 1)); if [ $n -gt 2 ]; then n=2; fi; echo $n > n
  - shell: set -e; n=$(cat n); echo $n > r-$n; git add r-$n; git diff --cached --quiet || git commit -qm "round $n"
`,
		want: map[string]string{"first.txt": "first\n", "n": "2\n", "r-1": "1\n", "r-2": "2\n"},
		gone: []string{"r-0", "r-3"},
		once: []string{"round 1", "round 2"},
	},
	// The work of a run was left in branches, and is merged later.
	"merged later": {
		repo: true,
		flow: `
name: enumerate
mode: mapreduce
isolation: worktree
map:
  input: printf 'a\nb\n'
  max_parallel: 1
  agent_template:
    - shell: set -e; echo "${item}" > own-${item}; git add -A; git commit -qm "made ${item}"
    - shell: echo left > left-${item}
`,
		want:   map[string]string{"first.txt": "first\n", "own-a": "a\n", "own-b": "b\n", "left-a": "left\n", "left-b": "left\n"},
		once:   []string{"made a", "made b"},
		before: first(3, "run", "flow.yml"),
		does:   []string{"worktree", "merge", "last"},
	},
	// The branch has moved since, so that what is merged later passes the verify of its merge queue again.
	"verified later": {
		repo: true,
		flow: `
name: enumerate
mode: mapreduce
isolation: worktree
map:
  input: printf 'a\nb\n'
  max_parallel: 1
  agent_template:
    - shell: set -e; echo "${item}" > own-${item}; git add -A; git commit -qm "made ${item}"
merge_queue:
  flaky: 0
  verify: test -z "$(cat own-* | sort | uniq -d)"
`,
		want: map[string]string{"first.txt": "first\n", "own-a": "a\n", "own-b": "b\n", "own-user": "user\n"},
		once: []string{"made a", "made b", "made by the user"},
		before: func(x *stage) {
			first(3, "run", "flow.yml")(x)
			if err := sh(x.dir, "echo user > own-user && git add own-user && git commit -qm 'made by the user'"); err != nil {
				x.t.Fatal(err)
			}
		},
		does: []string{"worktree", "merge", "last"},
	},
	// A run is killed in its map, merged, and then resumed to its end.
	"merged and resumed": {
		repo: true,
		flow: `
name: enumerate
mode: mapreduce
isolation: worktree
setup:
  - shell: set -e; echo setup > set; git add set; git diff --cached --quiet || git commit -qm setup; echo loose > loose
map:
  input: printf 'a\nb\n'
  max_parallel: 1
  agent_template:
    - shell: set -e; test ${item} = a || touch $EV/second; cat loose > own-${item}; git add own-${item}; git commit -qm "made ${item}"
    - shell: echo left > left-${item}
reduce:
  - shell: cat own-* loose > total
`,
		want:    map[string]string{"first.txt": "first\n", "set": "setup\n", "loose": "loose\n", "own-a": "loose\n", "own-b": "loose\n", "left-a": "left\n", "left-b": "left\n", "total": "loose\nloose\nloose\n"},
		once:    []string{"setup", "made a", "made b"},
		before:  killedBefore("second"),
		does:    []string{"worktree", "merge", "last"},
		resumed: true,
	},
	// A dead letter runs again, when its cause is mended, and reduce with it.
	"dead letter": {
		repo: true,
		flow: `
name: enumerate
mode: mapreduce
isolation: worktree
worktree:
  copy: [.env]
  setup: echo dep > .dep
map:
  input: printf 'a\nb\n'
  max_parallel: 1
  agent_template:
    - shell: set -e; echo "${item}" > own-${item}; git add -A; git commit -qm "made ${item}"
    - shell: set -e; echo left > left-${item}; test ${item} = a || grep -q new $EV/world; cat .env .dep > got-${item}
reduce:
  - shell: cat own-* .env .dep > total
`,
		want:   map[string]string{"first.txt": "first\n", "own-a": "a\n", "own-b": "b\n", "left-a": "left\n", "left-b": "left\n", "total": "a\nb\nenv\ndep\n", "got-a": "env\ndep\n", "got-b": "env\ndep\n"},
		once:   []string{"made a", "made b"},
		before: func(x *stage) { x.env(".env\n"); first(3, "run", "-y", "flow.yml")(x) },
		does:   []string{"dlq", "retry", "last", "-y"},
	},
	// A step of a run that has ended runs again, with what comes after it.
	"run again": {
		repo: true,
		flow: `
name: enumerate
isolation: worktree
commands:
  - shell: echo a > own-a
  - {id: b, shell: 'set -e; cat $EV/world > own-b; git add -A; git diff --cached --quiet || git commit -qm "made $(cat own-b)"'}
  - {foreach: [1, 2], do: [{shell: 'cat own-b > own-${item}'}]}
  - shell: cat own-a own-b own-1 own-2 > total
`,
		want:   map[string]string{"first.txt": "first\n", "own-a": "a\n", "own-b": "new", "own-1": "new", "own-2": "new", "total": "a\nnewnewnew"},
		once:   []string{"made old", "made new"},
		before: func(x *stage) { x.world("old"); first(0, "run", "-y", "flow.yml")(x) },
		does:   []string{"rerun", "last", "--from", "b", "-y"},
	},
	// A step is killed after its commit, and somebody removes the run's worktree.
	"worktree removed": {
		repo: true,
		flow: `
name: enumerate
isolation: worktree
commands:
  - shell: echo lost > lost.txt
  - shell: set -e; echo two > two.txt; git add two.txt; git diff --cached --quiet || git commit -qm two; touch $EV/committed
`,
		status: 3,
		want:   map[string]string{"first.txt": "first\n", "two.txt": "two\n"},
		once:   []string{"two"},
		lost:   []string{"commands[0]"},
		before: func(x *stage) {
			killedBefore("committed")(x)
			if err := os.RemoveAll(filepath.Join(x.home, "worktrees", filepath.Base(x.runDir()), "run")); err != nil {
				x.t.Fatal(err)
			}
		},
	},
}

// env writes the file .env, and what git ignores in all worktrees.
func (x *stage) env(ignored string) {
	for name, text := range map[string]string{".git/info/exclude": ignored, ".env": "env\n"} {
		if err := os.WriteFile(filepath.Join(x.dir, name), []byte(text), 0o600); err != nil {
			x.t.Fatal(err)
		}
	}
}

// first gives what makes a first life, which ends with a status, and then changes what the next
// one finds in $EV/world.
func first(status int, args ...string) func(x *stage) {
	return func(x *stage) {
		if got, said := x.plainly(args...); got != status {
			x.t.Fatalf("the first life: status %d, want %d: %s", got, status, said)
		}
		x.world("new")
	}
}

// killedBefore gives what makes a first life, which is killed before a step makes a file in $EV.
func killedBefore(name string) func(x *stage) {
	return func(x *stage) {
		status, said := x.playAll(func(e crashtest.Effect) crashtest.Verdict {
			if e.Path == filepath.Join(x.ev, name) {
				return crashtest.Verdict{End: crashtest.Everyone}
			}
			return crashtest.Verdict{}
		}, "run", "-y", "flow.yml")
		if status != -1 {
			x.t.Fatalf("the run is not killed: %d: %s", status, said)
		}
		x.quiet()
	}
}
