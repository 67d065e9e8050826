// Package cli is the command line of bide: flags, output, exit status. Each command has a
// struct of options, which names what it needs (the streams; app if it reads runs; the flags
// that run steps if it runs them), and a method run; commandTable lists its constructor. What
// a command does is in the packages below.
//
// Results go to standard output, everything else to standard error. Every command that prints
// has --json. Exit status: 0 success; 1 failed; 2 bad usage or bad file; 3 completed with
// failed or skipped items, with steps that their repair did not fix, or with work that is not
// merged; 130 interrupted; 143 terminated.
package cli
