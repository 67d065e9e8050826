//go:build unix

package proc

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// selfCPU is the processor time of this process without its children.
func selfCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// parallel2 runs f in two goroutines, b.N times in all, and reports starts a
// second and our own processor time a start.
func parallel2(b *testing.B, f func()) {
	var left atomic.Int64
	left.Store(int64(b.N))
	before := selfCPU(b)
	b.ReportAllocs()
	b.ResetTimer()
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				f()
			}
		})
	}
	group.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "starts/s")
	b.ReportMetric(float64((selfCPU(b)-before).Microseconds())/float64(b.N), "self-µs/start")
}

func benchmarkRun(b *testing.B, opts Options, ctx context.Context) {
	s, err := New(b.TempDir(), opts)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	cmd := &Cmd{Path: "/bin/true", Argv: []string{"true"}, Env: os.Environ()}
	parallel2(b, func() {
		if r, err := s.Run(ctx, cmd); err != nil || r.ExitCode != 0 {
			b.Error(r.ExitCode, err)
		}
	})
}

func BenchmarkRunTrue(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	benchmarkRun(b, Options{}, ctx)
}

func BenchmarkRunPortable(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	benchmarkRun(b, Options{portable: true}, ctx)
}

// BenchmarkOSExec is what one would write without this package: its outputs
// are captured through pipes, its group is its own, /dev/null is opened once.
func BenchmarkOSExec(b *testing.B) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	env := os.Environ()
	parallel2(b, func() {
		var out, stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, "/bin/true")
		cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, null, &out, &stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.WaitDelay = time.Second
		if err := cmd.Run(); err != nil {
			b.Error(err)
		}
	})
}

// BenchmarkOneStep is a whole run of one command: what `bide run` of one step
// pays for supervision over the command itself.
func BenchmarkOneStep(b *testing.B) {
	cmd := &Cmd{Path: "/bin/true", Env: os.Environ()}
	for b.Loop() {
		s, err := New(b.TempDir(), Options{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Run(b.Context(), cmd); err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
