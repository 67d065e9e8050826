package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ourConfig is put before every command of ours. Hooks and signing are for people's own
// commits. A background gc must not start while agents run. Files are saved with any line
// ends, and git prints file names unquoted. A message keeps its lines that look like
// comments.
var ourConfig = []string{
	"-c", "core.hooksPath=/dev/null",
	"-c", "commit.gpgSign=false",
	"-c", "commit.cleanup=whitespace",
	"-c", "gc.auto=0",
	"-c", "maintenance.auto=false",
	"-c", "core.quotePath=false",
	"-c", "submodule.recurse=false",
	"-c", "core.safecrlf=false",
	"-c", "rerere.enabled=false",
	"-c", "diff.relative=false",
	"-c", "merge.verifySignatures=false",
	"-c", durableRefs,
}

// durableRefs makes git sync a ref before it replaces the old one. By default, git leaves
// that to the operating system, and a power cut could leave zeros in the ref.
const durableRefs = "core.fsync=reference"

// durableSteps makes the git of a step sync its index as well. What a step staged cannot be
// made again; what we write into an index can.
const durableSteps = durableRefs + ",index"

// StepEnv gives the variables, names and values in turn, that make the git of a step in a
// worktree of ours do that. count is the value of GIT_CONFIG_COUNT in its environment.
func StepEnv(count string) []string {
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 {
		n = 0
	}
	key, value, _ := strings.Cut(durableSteps, "=")
	return []string{"GIT_CONFIG_COUNT", strconv.Itoa(n + 1), fmt.Sprintf("GIT_CONFIG_KEY_%d", n), key, fmt.Sprintf("GIT_CONFIG_VALUE_%d", n), value}
}

// Elsewhere are the variables that make git use another repository or index than those of
// its directory. They are set where bide itself runs inside a hook or an alias. With them,
// a step in a worktree would change the user's own index and branch.
var Elsewhere = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE",
	"GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH", "GIT_INTERNAL_SUPER_PREFIX",
}

// dropped are the variables that our own git commands do not get.
var dropped = append([]string{
	"GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_EXTERNAL_DIFF",
	"GIT_DIFF_OPTS", "GIT_TRACE", "GIT_EDITOR", "GIT_TERMINAL_PROMPT", "LC_ALL", "LANGUAGE",
}, Elsewhere...)

// baseEnv is the environment of every git command of ours.
func baseEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(dropped, name)
	})
	return append(env, "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=true", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
}

// GitError is a git command that failed.
type GitError struct {
	Args   []string // without the program and our settings
	Dir    string
	Stderr string
	Err    error
}

func (e *GitError) Error() string {
	text := strings.TrimSpace(e.Stderr)
	if text == "" {
		text = e.Err.Error()
	}
	return fmt.Sprintf("git %s in %s: %s", strings.Join(e.Args, " "), e.Dir, text)
}

func (e *GitError) Unwrap() error { return e.Err }

// mostStatus is the highest exit status that git itself gives, for a wrong command line. If
// a shell script on PATH wraps git, its status is higher when a signal ended git.
const mostStatus = 129

// status is the exit status of git in an error of call. It is -1 if git did not start or
// did not exit.
func status(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() <= mostStatus {
		return exit.ExitCode()
	}
	return -1
}

// call is one git command.
type call struct {
	dir   string
	env   []string // added to that of the Repo
	stdin string
	args  []string
	// settings are put before the arguments.
	settings []string
}

// git runs a git command and gives its standard output. A cancelled context ends git in a
// way that lets it remove its lock files.
func (r *Repo) git(ctx context.Context, dir string, args ...string) (string, error) {
	return r.run(ctx, call{dir: dir, args: args})
}

func (r *Repo) run(ctx context.Context, c call) (string, error) {
	c = r.pinned(c)
	for {
		r.started.Add(1)
		out, err := run(ctx, r.env, c)
		if err == nil || !r.freed(ctx, c.dir, err) {
			return out, err
		}
	}
}

func run(ctx context.Context, env []string, c call) (string, error) {
	cmd := exec.CommandContext(ctx, "git", slices.Concat(ourConfig, c.settings, c.args)...)
	cmd.Dir = c.dir
	cmd.Env = append(slices.Clone(env), c.env...)
	if c.stdin != "" {
		cmd.Stdin = strings.NewReader(c.stdin)
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	detach(cmd)
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		if cause := ctx.Err(); cause != nil {
			err = errors.Join(cause, err)
		}
		if errors.Is(err, exec.ErrNotFound) {
			return "", ErrNoGit
		}
		if _, gone := os.Stat(c.dir); cmd.Process == nil && errors.Is(gone, fs.ErrNotExist) {
			err = errors.New("this directory is not there any more")
		}
		return out.String(), &GitError{Args: c.args, Dir: c.dir, Stderr: errOut.String(), Err: err}
	}
	return out.String(), nil
}

// line runs a git command whose output is one line.
func (r *Repo) line(ctx context.Context, dir string, args ...string) (string, error) {
	s, err := r.git(ctx, dir, args...)
	return strings.TrimSuffix(s, "\n"), err
}

// list runs a git command that prints items, each ended by NUL.
func (r *Repo) list(ctx context.Context, dir string, args ...string) ([]string, error) {
	s, err := r.git(ctx, dir, args...)
	return splitNUL(s), err
}

func splitNUL(s string) []string {
	if s = strings.TrimSuffix(s, "\x00"); s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}

// pathspec runs a git command on exactly these paths.
func (r *Repo) pathspec(ctx context.Context, dir string, paths []string, args ...string) (string, error) {
	args = append(append([]string{"--literal-pathspecs"}, args...), "--pathspec-from-file=-", "--pathspec-file-nul")
	return r.run(ctx, call{dir: dir, args: args, stdin: strings.Join(paths, "\x00")})
}

// yes runs a git command that answers by its exit status 0 or 1.
func (r *Repo) yes(ctx context.Context, dir string, args ...string) (bool, error) {
	_, err := r.git(ctx, dir, args...)
	if err == nil {
		return true, nil
	}
	if status(err) == 1 {
		return false, nil
	}
	return false, err
}

// commit gives the full id of the commit that a name refers to; "" if there is none.
func (r *Repo) commit(ctx context.Context, dir, name string) (string, error) {
	id, err := r.line(ctx, dir, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if status(err) == 1 {
		return "", nil
	}
	return id, err
}

// isAncestor reports whether everything in commit a is in commit b.
func (r *Repo) isAncestor(ctx context.Context, a, b string) (bool, error) {
	return r.yes(ctx, r.dir, "merge-base", "--is-ancestor", a, b)
}

// Contains reports whether everything in a commit is in another one.
func (r *Repo) Contains(ctx context.Context, in, commit string) (bool, error) {
	return r.isAncestor(ctx, commit, in)
}

// cleanup gives a context for cleaning up after ctx has ended.
func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
}
