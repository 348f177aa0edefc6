// Package worktree describes the files of a project, and what a copy of them lacks.
//
// A Tree maps the path of each file to its mode, size and hash. Its root is a hash over all of them,
// so that two trees with the same root are equal. Changes between two trees are computed, and never
// remembered: whatever happened meanwhile, the copy ends as the project is.
package worktree
