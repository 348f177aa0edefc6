// Package page tests the page of a running manager in a real Chromium, and takes the screenshots of docs/page.md.
package page
