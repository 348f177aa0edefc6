// Package commandtest lists the names of commands and flags, for the tests that compare them with docs/names.
package commandtest

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Names returns a row of docs/names for each command of a program, and for each of its flags.
func Names(root *cobra.Command) (rows []string) {
	path := root.CommandPath()
	rows = append(rows, path+"\tcommand"+detail("aliases", root.Aliases))
	root.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		row := path + " --" + flag.Name + "\t" + flag.Value.Type()
		if flag.Shorthand != "" {
			row += ", -" + flag.Shorthand
		}
		rows = append(rows, row)
	})
	for _, below := range root.Commands() {
		rows = append(rows, Names(below)...)
	}
	return rows
}

func detail(name string, values []string) string {
	if len(values) == 0 {
		return ""
	}
	return ", " + name + " " + strings.Join(values, " ")
}
