// Package charts holds the Helm charts of Bellerophon as files of the program.
//
// It does not render them: Helm's library stays out of the module that holds this package.
package charts

import "embed"

// Files holds each chart in a folder of its name.
//
//go:embed all:bellerophon-operator all:bellerophon
var Files embed.FS
