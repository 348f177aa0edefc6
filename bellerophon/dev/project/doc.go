// Package project reads the devfile of a project, and turns it into a Plan.
//
// Read works where the project is. It reads files of the project alone, and flattens the devfile with
// the devfile library. Parse works anywhere, from the flattened document alone.
package project
