// Command pictures makes the pictures of the README and of the pages from real
// runs: `make pictures`. It is given the program bide, runs command lines in an
// empty folder with colours on, and draws what they print as SVG. A live display is
// run on a terminal that script (of util-linux) makes.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// shots are the pictures: a name, the command lines that one shows, and after how
// long; 0: at the end.
var shots = []struct {
	name  string
	files map[string]string
	lines []string
	after time.Duration
}{
	{"exec", nil, []string{
		`bide exec --attempts 4 --initial-delay 100ms -- sh -c 'echo try >> tries; test $(wc -l < tries) -ge 3'`,
	}, 0},
	{"map", map[string]string{"map.yml": `name: thumbnails
map:
  input: {command: seq -f photo-%02g.jpg 1 24}
  max_parallel: 4
  agent_template:
    - name: resize
      shell: |
        case ${item} in
        photo-04.jpg) echo "not a JPEG file" >&2; exit 65 ;;
        photo-07.jpg) test "$BIDE_ATTEMPT" = 2 || { echo "connection reset" >&2; exit 7; } ;;
        esac
        sleep 1.$(echo ${item} | tail -c 6 | head -c 1)
error_policy:
  error_collection: immediate
  retry_config: {attempts: 2, initial_delay: 6s, retry_on: [network]}
`}, []string{"bide run map.yml"}, 3600 * time.Millisecond},
	{"timeline", map[string]string{"nightly.yml": `name: nightly
commands:
  - name: fetch
    shell: echo x >> n; test $(wc -l < n) -ge 3
    retry: {attempts: 5, initial_delay: 200ms}
  - name: prices
    shell: exit 1
    retry: {attempts: 2, initial_delay: 100ms, on_failure: {fallback: {command: echo yesterday}}}
`}, []string{"bide run --color always --quiet nightly.yml", "bide show --gantt --color always"}, 0},
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: pictures BIDE OUTDIR")
	}
	bide, err := filepath.Abs(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range shots {
		lines, err := take(bide, s.files, s.lines, s.after)
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[2], s.name+".svg"), []byte(draw(lines)), 0o644)
		}
		if err != nil {
			log.Fatalf("%s: %v", s.name, err)
		}
	}
}

// take runs command lines in a folder of their own and gives what a terminal shows, at
// the end or after some time.
func take(bide string, files map[string]string, lines []string, after time.Duration) ([]string, error) {
	dir, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	var out []string
	for _, line := range lines {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "BIDE_HOME="+filepath.Join(dir, ".bide"), "PATH="+filepath.Dir(bide)+":"+os.Getenv("PATH"))
		if after > 0 {
			cmd.Args = []string{"script", "-qefc", fmt.Sprintf("stty cols %d rows 24; exec %s", most, line), "/dev/null"}
			cmd.Path, cmd.Err = "/usr/bin/script", nil
		}
		printed, err := output(cmd, after)
		if err != nil && !errors.As(err, new(*exec.ExitError)) {
			return nil, err
		}
		out = append(out, "\x1b[2m$\x1b[0m \x1b[1m"+strings.ReplaceAll(line, " --color always", "")+"\x1b[0m")
		if after > 0 {
			printed = screen(printed)
		}
		out = append(out, strings.Split(strings.TrimRight(string(printed), "\n"), "\n")...)
	}
	return out, nil
}

// output is what a command prints, of one that is interrupted what it had printed by then.
func output(cmd *exec.Cmd, after time.Duration) ([]byte, error) {
	if after == 0 {
		return cmd.CombinedOutput()
	}
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	time.Sleep(after)
	printed := out.bytes()
	return printed, errors.Join(cmd.Process.Kill(), cmd.Wait())
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.buf.Bytes())
}

// up is how bide takes back the block of its live display.
var up = regexp.MustCompile(`\r(?:\x1b\[(\d+)A)?\x1b\[J`)

// screen is what a terminal has after a text with live displays: the last of them
// whole, as the text may end within one.
func screen(text []byte) []byte {
	s := strings.ReplaceAll(string(text), "\r\n", "\n")
	var lines []string
	add := func(text string) {
		more := strings.Split(text, "\n")
		if len(lines) > 0 {
			more[0] = lines[len(lines)-1] + more[0]
			lines = lines[:len(lines)-1]
		}
		lines = append(lines, more...)
	}
	at := 0
	whole := lines
	for _, m := range up.FindAllStringSubmatchIndex(s, -1) {
		add(s[at:m[0]])
		whole = slices.Clone(lines)
		n := 0
		if m[2] >= 0 {
			n, _ = strconv.Atoi(s[m[2]:m[3]])
		}
		lines = append(lines[:max(0, len(lines)-1-n)], "")
		at = m[1]
	}
	return []byte(strings.Join(whole, "\n"))
}

const style = `
  .page { fill: #ffffff; stroke: #d8dee4; } text { fill: #1f2328; font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }
  .b { font-weight: 600; } .d { fill: #59636e; } .r { fill: #cf222e; } .g { fill: #1a7f37; } .y { fill: #9a6700; } .c { fill: #0969da; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #30363d; } text { fill: #e6edf3; }
    .d { fill: #9198a1; } .r { fill: #ff7b72; } .g { fill: #3fb950; } .y { fill: #d29922; } .c { fill: #58a6ff; }
  }
`

const (
	cell   = 8.1 // width of a character, of the widest font
	height = 19  // of a line
	margin = 16
	most   = 110 // characters of a line
)

// draw sets lines with colours as an SVG.
func draw(lines []string) string {
	wide := 40
	var rows []string
	for _, l := range lines {
		if n := utf8.RuneCountInString(colour.ReplaceAllString(l, "")); n > most {
			l, n = clip(l), most
		} else {
			wide = max(wide, n)
		}
		rows = append(rows, l)
	}
	w, h := int(float64(wide)*cell)+2*margin, len(rows)*height+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n<style>%s</style>\n", w, h, w, h, style)
	fmt.Fprintf(&b, "<rect class=\"page\" x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", w-1, h-1)
	for i, l := range rows {
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" xml:space=\"preserve\">%s</text>\n", margin, margin+13+i*height, spans(l))
	}
	return b.String() + "</svg>\n"
}

var colour = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// clip shortens a line without its colours.
func clip(l string) string {
	return string([]rune(colour.ReplaceAllString(l, ""))[:most-1]) + "…"
}

var classes = map[string]string{"1": "b", "2": "d", "31": "r", "1;31": "r", "32": "g", "33": "y", "1;33": "y", "34": "c", "36": "c"}

func spans(l string) string {
	var b strings.Builder
	class, at := "", 0
	put := func(text string) {
		if text == "" {
			return
		}
		if class != "" {
			fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, class, html.EscapeString(text))
			return
		}
		b.WriteString(html.EscapeString(text))
	}
	for _, m := range colour.FindAllStringSubmatchIndex(l, -1) {
		put(l[at:m[0]])
		class, at = classes[l[m[2]:m[3]]], m[1]
	}
	put(l[at:])
	return b.String()
}
