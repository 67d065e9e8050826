package cli

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/spf13/cobra"
)

// reportOptions are the options of export junit and export markdown.
type reportOptions struct {
	*app
	id, file string
	write    func(context.Context, io.Writer, *journal.Reader) error
}

func junitCmd(a *app) *cobra.Command {
	o := &reportOptions{app: a, write: writeJUnit}
	return o.command(&cobra.Command{
		Use:   "junit [RUN]",
		Short: "Write a run as JUnit XML, for a CI system",
		Long: `Writes a run as JUnit XML. Each step and each work item is a test case with its
time. A failed one has its error, one that did not run is skipped, and one that recovered,
degraded or was tolerated says so.`,
		Example: "  bide export junit -o results.xml\n  bide export junit 01KAJ3",
	})
}

func markdownCmd(a *app) *cobra.Command {
	o := &reportOptions{app: a, write: writeMarkdown}
	return o.command(&cobra.Command{
		Use:   "markdown [RUN]",
		Short: "Write a run as Markdown, for a summary or a comment",
		Long: `Writes how a run ended in Markdown: its status, its steps, and the errors of its
items. In a job of GitHub Actions, every run adds this to the job's summary
($GITHUB_STEP_SUMMARY) by itself.`,
		Example: "  bide export markdown > comment.md",
	})
}

// command completes a command that writes a report.
func (o *reportOptions) command(cmd *cobra.Command) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.id = args[0]
		return o.run(cmd.Context())
	}
	cmd.Flags().StringVarP(&o.file, "output", "o", "", "write to this file, in place of standard output")
	return cmd
}

func (o *reportOptions) run(ctx context.Context) error {
	return o.reading(o.id, func(r *journal.Reader) error {
		if o.file == "" {
			return o.write(ctx, o.out, r)
		}
		f, err := os.Create(o.file)
		if err != nil {
			return err
		}
		return errors.Join(o.write(ctx, f, r), f.Close())
	})
}

// These are the parts of JUnit's XML.
type (
	junitCase struct {
		XMLName xml.Name `xml:"testcase"`
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Time    string   `xml:"time,attr"`
		Failure *junitFailure
		Skipped *junitSkipped
		Out     string `xml:"system-out,omitempty"`
	}
	junitFailure struct {
		XMLName xml.Name `xml:"failure"`
		Type    string   `xml:"type,attr"`
		Message string   `xml:"message,attr"`
	}
	junitSkipped struct {
		XMLName xml.Name `xml:"skipped"`
		Message string   `xml:"message,attr,omitempty"`
	}
)

// junitOf turns a step or an item into a test case.
func junitOf(class, name, kind, errClass, message string, attempts int, ms int64) junitCase {
	c := junitCase{Class: class, Name: name, Time: seconds(ms)}
	switch kind {
	case event.Interrupted, event.Running:
		if message != "" {
			message = ", after: " + message // of an earlier attempt
		}
		c.Failure = &junitFailure{Type: kind, Message: words(kind) + message}
	case event.Failed, event.DeadLettered:
		message = cmp.Or(message, words(kind))
		c.Failure = &junitFailure{Type: errClass, Message: message}
	case event.Skipped, event.Unchanged:
		c.Skipped = &junitSkipped{Message: message}
	case event.Succeeded:
	default:
		c.Out = words(kind) + "\n"
		if message != "" {
			c.Out = words(kind) + ": " + message + "\n"
		}
	}
	if attempts > 1 {
		c.Out += fmt.Sprintf("%d attempts\n", attempts)
	}
	return c
}

func seconds(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }

// writeJUnit writes one suite of a run's steps, and one of its items.
func writeJUnit(ctx context.Context, w io.Writer, r *journal.Reader) error {
	s, err := showOf(ctx, r)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, xml.Header+"<testsuites>\n"); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("  ", "  ")
	title := s.Title
	suite := func(name string, tests, failures, skipped int, cases func() error) error {
		start := xml.StartElement{Name: xml.Name{Local: "testsuite"}, Attr: []xml.Attr{
			{Name: xml.Name{Local: "name"}, Value: name}, {Name: xml.Name{Local: "tests"}, Value: fmt.Sprint(tests)},
			{Name: xml.Name{Local: "failures"}, Value: fmt.Sprint(failures)}, {Name: xml.Name{Local: "skipped"}, Value: fmt.Sprint(skipped)},
			{Name: xml.Name{Local: "time"}, Value: seconds(s.DurationMS)}}}
		if err := e.EncodeToken(start); err != nil {
			return err
		}
		return errors.Join(cases(), e.EncodeToken(start.End()))
	}
	var steps []junitCase
	failures, skipped := 0, 0
	for _, x := range s.StepList {
		if event.Aside(x.Step) {
			continue
		}
		c := junitOf(title, x.Label+" ("+x.Step+")", x.Status, x.Class, x.Message, x.Attempts, x.DurationMS)
		steps = append(steps, c)
		if c.Failure != nil {
			failures++
		}
		if c.Skipped != nil {
			skipped++
		}
	}
	err = suite(title, len(steps), failures, skipped, func() error { return e.Encode(steps) })
	if n := s.Items; err == nil && n.Total > 0 {
		err = suite(title+": items", n.Total-n.Pending, n.Failed, n.Skipped+n.Unchanged, func() error {
			for res, err := range r.Results(ctx) {
				if err != nil {
					return err
				}
				if err := e.Encode(junitOf(title, cmp.Or(res.Label, res.ID), res.Status, res.Class, res.Message, res.Attempts, res.DurationMS)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err = errors.Join(err, e.Close()); err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n</testsuites>\n")
	return err
}

// writeMarkdown writes how a run ended, with its steps and the errors of its items.
func writeMarkdown(ctx context.Context, w io.Writer, r *journal.Reader) error {
	s, err := showOf(ctx, r)
	if err != nil {
		return err
	}
	cell := func(text string) string {
		return strings.NewReplacer("|", "\\|", "<", "&lt;", "`", "'").Replace(oneLine(text))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### %s: %s", cell(s.Title), words(s.Status))
	if t := took(s.DurationMS); t != "" {
		b.WriteString(" in " + t)
	}
	b.WriteString("\n\n")
	if s.Status == event.Failed {
		fmt.Fprintf(&b, "%s\n\n", cell(s.Message))
	}
	if text := s.items(); text != "" {
		fmt.Fprintf(&b, "Items: %s\n\n", text)
	}
	if len(s.StepList) > 0 {
		b.WriteString("| step | status | attempts | took | waited |\n| --- | --- | ---: | ---: | ---: |\n")
	}
	for i, x := range s.StepList {
		if i == mostListed {
			fmt.Fprintf(&b, "\nand %d more steps\n", len(s.StepList)-i)
			break
		}
		label := cell(x.Label)
		if x.Message != "" && x.Status != event.Succeeded {
			label += ": " + cell(x.Message)
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s |\n", label, words(x.Status), x.Attempts, took(x.DurationMS), took(x.WaitedMS))
	}
	if len(s.Errors) > 0 {
		b.WriteString("\n| errors | class | for example |\n| ---: | --- | --- |\n")
	}
	causes, others := firstCauses(s.Errors)
	for _, x := range causes {
		example := ""
		if x.Example != "" {
			example = "item " + cell(cmp.Or(x.Label, x.Item)) + ": " + cell(x.Example)
		}
		fmt.Fprintf(&b, "| %d | %s | %s |\n", x.Count, cell(x.Class), example)
	}
	if others != "" {
		fmt.Fprintf(&b, "\n%s\n", others)
	}
	fmt.Fprintf(&b, "\nRun `%s`\n", s.Run)
	_, err = io.WriteString(w, b.String())
	return err
}

// mostListed is how many steps a summary lists; GitHub limits its size.
const mostListed = 200

// jobSummary adds a run to the summary of the GitHub Actions job that it runs in. It only
// reports an error: the run's result stays the same.
func (a *app) jobSummary(ctx context.Context, run string) {
	name := os.Getenv("GITHUB_STEP_SUMMARY")
	if name == "" {
		return
	}
	err := a.reading(run, func(r *journal.Reader) error {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
		if err != nil {
			return err
		}
		return errors.Join(writeMarkdown(ctx, f, r), f.Close())
	})
	if err != nil {
		a.tell("the job's summary ($GITHUB_STEP_SUMMARY): %v", err)
	}
}
