// Package proc is the only way bide runs a process.
//
// A [Supervisor], one per run of bide, starts commands and answers for them:
//
//   - each command leads its own process group, has no terminal and reads /dev/null
//     unless told otherwise, and sees exactly the environment it is given plus the marker
//     variable [MarkerVar];
//   - its output is captured in bounded memory, passed on live, and spilled
//     whole to a file where it is large;
//   - when it exits, is cancelled or takes too long, everything it started is
//     ended with it: its group (SIGTERM, grace, SIGKILL), and on Linux also
//     what left the group by setsid;
//   - when bide itself dies, kill -9 included, a companion process that holds
//     the other end of a pipe ends what was running; [ReapOrphans] does the
//     same on resume, for a machine on which the companion died too.
//
// A command that exits with a status other than 0 is no error here: [Result]
// says how it ended. [Supervisor.Run] fails only with a [*StartError], when
// there was no process at all.
//
// A program that uses this package calls [CompanionMain] first thing in main
// (a test binary in TestMain).
package proc

import (
	"io"
	"os"
	"time"
)

// Defaults of the fields of [Cmd], and the size from which output is spilled.
const (
	DefaultLimit   = 1 << 20                // Cmd.Limit, bytes a stream
	DefaultGrace   = 10 * time.Second       // Cmd.Grace
	SpillThreshold = 16 << 10               // Cmd.Spill is called for more bytes than this,
	ShowAfter      = 400 * time.Millisecond // and for any that are there, or come, so long after the start
)

// MarkerVar is the environment variable that every command gets in addition to
// Cmd.Env. By it the processes of a run are found wherever they went. Its value
// is a comma-separated chain "supervisor.step", the outermost bide first.
const MarkerVar = "BIDE_SUPERVISOR"

// Cmd describes one command. Run does not change it, and it may be run again
// or at the same time by several goroutines if its writers allow that.
type Cmd struct {
	// Path is the executable, as found by [LookPath]. A relative path is
	// taken from Dir.
	Path string
	// Argv holds all arguments, argv[0] included. Empty means {Path}.
	Argv []string
	// Dir is the working directory; "" is that of this process.
	Dir string
	// Env is the complete environment ("NAME=value"); nothing is inherited. Of a name that is
	// there twice the last value counts.
	// An entry of MarkerVar in it is replaced by ours, which continues it.
	Env []string

	// Stdin is read by the command. Nil: Input if that is not nil, else
	// /dev/null.
	Stdin *os.File
	// Input is what the command reads on its standard input. Setting both
	// Stdin and Input is an error.
	Input []byte

	// Terminal, if not nil, is the terminal of the command: what it opens as
	// /dev/tty, and those of its three streams that Terminal says. Without it a
	// command has none, so that one that wants to read a terminal is told so;
	// it would else be stopped in silence.
	Terminal *Terminal

	// Stdout and Stderr get the output as it comes, before Run returns, from
	// one goroutine for both, so they may be the same writer. A slow writer
	// slows the command down; it does not hold up its timeout, and one that
	// blocks for longer than Grace after the command's end is given up with
	// Output.Err set. Nil: no live output.
	Stdout, Stderr io.Writer
	// Limit is how many bytes of each stream are kept in Output, the first
	// and the last half. 0 means DefaultLimit; negative keeps nothing.
	Limit int
	// Spill, if not nil, is called with "stdout" or "stderr" when the stream
	// exceeds SpillThreshold, and when the command has written something and
	// runs for longer than ShowAfter, so that it can be followed. The file gets
	// the complete stream, and Run closes it. Run removes the file of a stream
	// that ends within SpillThreshold.
	Spill func(stream string) (File, error)

	// Grace is the time between SIGTERM and SIGKILL when the command is ended
	// by its timeout or its context. Where the cause of the context has a method
	// Signal() syscall.Signal, that signal is sent first in place of SIGTERM. 0 means DefaultGrace; negative kills at
	// once.
	Grace time.Duration
	// Timeout ends the command that long after its start. 0 or less: no limit.
	Timeout time.Duration
}

// Terminal is a pseudo terminal. Run closes Slave; what the command writes on
// the terminal is taken for its Stdout if Out is set, else for its Stderr if
// Err is set, and goes to Screen if neither is.
type Terminal struct {
	Master, Slave *os.File
	In, Out, Err  bool // at least one, unless there is Shown
	Screen        io.Writer
	// Shown, where it is set, is a second pseudo terminal, for the standard output
	// alone: what is typed is echoed on the other one, and is no output. Run closes
	// both of its ends.
	Shown *Pair
}

// Files is all that it has open.
func (t *Terminal) Files() []*os.File {
	files := []*os.File{t.Master, t.Slave}
	if t.Shown != nil {
		files = append(files, t.Shown.Master, t.Shown.Slave)
	}
	return files
}

// Pair is the two ends of a pseudo terminal.
type Pair struct{ Master, Slave *os.File }

// File is where a large output is kept whole, such as an *os.File.
type File interface {
	io.WriteCloser
	Name() string
}

// Result says how a command ended.
type Result struct {
	// ExitCode is the exit status, -1 when a signal ended the command, it was
	// not started, or it could not be ended (another user's, or stuck in the
	// kernel, 5 s after SIGKILL; Supervisor.Close tells).
	ExitCode int
	// Signal is the name of the signal that ended the command ("SIGKILL"), or
	// "".
	Signal string
	// SignalNumber is the number of Signal, or 0.
	SignalNumber int
	// TimedOut: Cmd.Timeout passed, or the deadline of the context.
	TimedOut bool
	// Cancelled: the context was cancelled.
	Cancelled bool
	// Leftovers counts the processes that were still there when the command
	// itself had ended, and were ended after it. One that was about to end
	// anyway at that moment may be among them.
	Leftovers int

	Stdout, Stderr Output

	Start    time.Time
	Duration time.Duration
	CPU      Usage
}

// Usage is what the command and those of its children that it waited for have
// used.
type Usage struct {
	User, System time.Duration
	MaxRSS       int64 // bytes
}

// ShellStatus is the exit status in the convention of the shell: 128+n for a
// command ended by signal n.
func (r Result) ShellStatus() int {
	if r.SignalNumber > 0 {
		return 128 + r.SignalNumber
	}
	return r.ExitCode
}

// Success reports whether the command exited with 0 on its own account: not
// after its timeout, and not after a cancellation.
func (r Result) Success() bool {
	return r.ExitCode == 0 && !r.TimedOut && !r.Cancelled
}
