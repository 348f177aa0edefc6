// Package page serves the page of a running manager, which is read-only, and the stream of Server-sent events that it
// shows. The streams of the manager are observed only while a browser is connected, and all browsers share one
// observation. A browser that does not read is disconnected, and the pipeline waits for none.
package page
