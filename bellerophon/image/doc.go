// Package image makes the container images of the operator and of the server without Docker. An image has
// nothing but its program, which runs as a user without rights. The same source and the same Go give the same
// bytes.
package image
