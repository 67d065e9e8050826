package journal

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// childEnv makes the test binary a process of its own that has a journal and
// can be killed: "MODE DIR".
const childEnv = "BIDE_JOURNAL_TEST_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		mode, dir, _ := strings.Cut(what, " ")
		if err := child(mode, dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Each check makes a run with all its files; -rapid.checks asks for more.
	if err := flag.Set("rapid.checks", "40"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// startChild starts a process that works in dir and tells on its output what
// it does.
func startChild(t *testing.T, mode, dir string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+mode+" "+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			kill(t, cmd)
		}
	})
	return cmd, bufio.NewReader(out)
}

// kill ends a child as nothing can be handled, and waits for its end.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
}

func child(mode, dir string) error {
	s, err := OpenStore(dir)
	if err != nil {
		return err
	}
	if mode == "resume" {
		j, err := s.Open("")
		if err != nil {
			return err
		}
		return forever(j)
	}
	if mode == "roomless" {
		return noRoomToOpen(s)
	}
	j, err := s.Create(header())
	if err != nil {
		return err
	}
	switch mode {
	case "hold":
		fmt.Println(j.Run())
		select {}
	case "append":
		return forever(j)
	case "limited":
		return limited(j)
	case "brimful":
		return fullAtTheEnd(j)
	}
	return fmt.Errorf("no mode %q", mode)
}

// forever appends events and says how far the disk has them.
func forever(j *Journal) error {
	ctx := context.Background()
	fmt.Println(j.Run())
	for i := 1; ; i++ {
		e, err := j.Record(event.Event{Type: event.Note, Message: fmt.Sprint("message ", i), Data: []byte(`{"some":"data"}`)})
		if err != nil {
			return err
		}
		if i%97 == 0 {
			if err := j.Sync(ctx); err != nil {
				return err
			}
			fmt.Println(e.Seq)
		}
	}
}

// noRoomToOpen opens the run where the memory that its readers share, a file beside it,
// has no room.
func noRoomToOpen(s *Store) error {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 16 << 10, Max: 16 << 10}); err != nil {
		return err
	}
	r, err := s.Read("")
	if err == nil {
		_, err = r.State(context.Background())
	}
	d, ok := errors.AsType[*DiskError](err)
	fmt.Println(ok && d.Full, errors.As(err, new(*DamagedError)), err)
	j, err := s.Open("")
	if err == nil {
		j.Close()
	}
	d, ok = errors.AsType[*DiskError](err)
	fmt.Println(ok && d.Full, errors.As(err, new(*DamagedError)), err)
	return nil
}

// manyNotes are more than fit into the database of a new run.
const manyNotes = 50

// fullAtTheEnd closes a journal whose files cannot grow any more.
func fullAtTheEnd(j *Journal) error {
	for range manyNotes {
		if _, err := j.Record(event.Event{Type: event.Note, Message: strings.Repeat("x", 500)}); err != nil {
			return err
		}
	}
	if err := j.Sync(context.Background()); err != nil {
		return err
	}
	info, err := os.Stat(j.path)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	limit := uint64(info.Size())
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	fmt.Println(j.Run())
	return j.Close()
}

// limited appends until the limit on the size of files stops it.
func limited(j *Journal) error {
	ctx := context.Background()
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 300 << 10, Max: 300 << 10}); err != nil {
		return err
	}
	synced := int64(0)
	for i := 0; ; i++ {
		e, err := j.Record(event.Event{Type: event.Note, Message: strings.Repeat("x", 500)})
		if err == nil && i%10 == 0 {
			if err = j.Sync(ctx); err == nil {
				synced = e.Seq
			}
		}
		if err == nil {
			continue
		}
		var d *DiskError
		if !errors.As(err, &d) {
			return fmt.Errorf("the error is %T: %w", err, err)
		}
		<-j.Failed()
		st, err := j.Reader.fold(ctx, nil) // what is there can still be read
		if err != nil || st.Seq > e.Seq {
			return fmt.Errorf("state %v, %w", st, err)
		}
		fmt.Println(synced)
		return nil
	}
}
