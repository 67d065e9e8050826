// Package cli is the command line of bide: flags, output, exit status. Each command
// has a struct of options, which names what it needs (the streams; app where it looks
// at runs; the flags that run steps where it runs them), and a method run; its
// constructor stands in commandTable. What a command does is in the packages below.
//
// Results go to standard output, everything else to standard error. Every
// command that prints has --json. Exit status: 0 well, 1 failed, 2 bad usage
// or bad file, 3 completed with items that failed or were skipped, steps that their repair did not mend, or work that is in no merge, 130 interrupted, 143 terminated.
package cli
