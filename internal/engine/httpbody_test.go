package engine_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// someBytes gives n bytes of all kinds that do not end with a line end.
func someBytes(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	b[n-1] = 0xff
	return b
}

// bytesServer answers /N with N bytes, and counts its requests.
func (b *bench) bytesServer() *atomic.Int64 {
	n := &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		size, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(someBytes(size)) // the client may close before the end
	}))
	b.t.Cleanup(s.Close)
	b.url = s.URL
	return n
}

// The body of an answer is read whole, or its step fails and says so. It is cut only if
// nothing reads it.
func TestBodyLongerThanMaxBody(t *testing.T) {
	t.Parallel()
	const long = "is longer than max_body"
	for _, c := range []struct {
		name, flow string
		fails      string // in the message
		says       string // in a note
		file       int    // bytes of out
	}{
		{"captured", "commands: [{http: '@URL@/3000000', capture: v, retry: {attempts: 3, initial_delay: 1ms}}]", long + ", 1048576 bytes", "", 0},
		{"referred to", "commands: [{http: '@URL@/3000000'}, {shell: 'true ${http.status}'}]", long, "", 0},
		{"in the results of a map", "map: {input: [1], agent_template: [{http: '@URL@/3000000'}]}", long, "", 0},
		{"the file says how long", "commands: [{http: {url: '@URL@/3000', max_body: 2999}, output_file: out}]", long + ", 2999 bytes", "", 0},
		{"as long as the file says", "commands: [{http: {url: '@URL@/3000', max_body: 3000}, output_file: out}]", "", "", 3000},
		{"to a file", "commands: [{http: '@URL@/3000000', output_file: out, capture: v}, {shell: 'cmp out ${last.output_file}'}]", "", "", 3_000_000},
		{"to a file, with secrets", "secrets: {S: a-long-secret}\ncommands: [{http: '@URL@/3000000', output_file: out}]", "", "", 3_000_000},
		{"to a file, of 1 MiB and a byte", "commands: [{http: '@URL@/1048577', output_file: out}]", "", "", 1<<20 + 1},
		{"unread", "commands: [{http: '@URL@/3000000'}]", "", long, 0},
		{"unread, and as long as it may be", "commands: [{http: '@URL@/1048576'}]", "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			asked := b.bytesServer()
			r := b.run("isolation: none\n" + c.flow)
			said := ""
			for _, e := range r.events {
				switch {
				case e.Type == event.Note:
					said += e.Message
				case e.Type == event.AttemptFailed && e.Class != "input":
					t.Errorf("it failed with the class %s: %s", e.Class, e.Message)
				}
			}
			if failed := r.sum.Status != event.Succeeded; failed != (c.fails != "") || !strings.Contains(r.story(), c.fails) || !strings.Contains(said, c.says) || c.says == "" && strings.Contains(said, long) {
				t.Errorf("%s: %s\n%s", r.sum.Status, r.sum.Message, r.story())
			}
			if got, err := os.ReadFile(filepath.Join(b.dir, "out")); c.file > 0 && (err != nil || !bytes.Equal(got, someBytes(c.file))) || c.file == 0 && err == nil {
				t.Errorf("out has %d bytes, %v", len(got), err)
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// The file that output_file names has what was printed, byte for byte.
func TestOutputFileByteForByte(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.bytesServer()
	b.write("small", "x\xff\x00\xfe y")
	b.write("large", string(someBytes(200_000)))
	r := b.run(`
isolation: none
agents:
  words: {command: [sh, -c, "printf 'two\n\n'"], output: text}
commands:
  - {shell: cat small, output_file: o1}
  - {shell: cat large, output_file: o2}
  - {shell: "printf 'a\n\n\n'", output_file: o3}
  - {shell: "printf '\n'", output_file: o4}
  - {shell: "true", output_file: o5}
  - {http: '@URL@/10', output_file: o6}
  - {http: '@URL@/70000', output_file: o7}
  - {words: x, output_file: o8}
  - {claude: "json: {\"result\": \"an answer\"}", output_file: o9}
  - {foreach: [1, 2], do: [{shell: 'echo ${item}', capture: v}], output_file: o10}
  - {shell: "printf 'a\n\n\n'", capture: v}
  - {shell: "printf %s '${v}'", output_file: o11}
`)
	r.status(event.Succeeded)
	for name, want := range map[string]string{
		"o1": "x\xff\x00\xfe y", "o2": string(someBytes(200_000)), "o3": "a\n\n\n", "o4": "\n", "o5": "", "o6": string(someBytes(10)),
		"o7": string(someBytes(70_000)), "o8": "two\n\n", "o10": "1\n2", "o11": "a",
	} {
		if got := b.text(name); got != want {
			t.Errorf("%s has %d bytes, want %d: %.40q", name, len(got), len(want), got)
		}
	}
	if got := b.text("o9"); got == "" || strings.HasSuffix(got, "\n") {
		t.Errorf("o9 has %q", got)
	}
}
