// Package cputime reads the CPU time that this process has used. Programs that adapt to their own load
// use it.
package cputime
