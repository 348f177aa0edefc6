// Package image makes the operator's container image without Docker. The image has nothing but the
// operator, which runs as a user without rights. The same source and the same Go give the same bytes.
package image
