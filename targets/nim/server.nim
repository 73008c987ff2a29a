## Nim's asynchttpserver as its documentation shows it: one thread, async procedures.
## Usage: server HOST PORT [nodelay]
import std/[asyncdispatch, asynchttpserver, asyncnet, importutils, nativesockets, net, os, strutils, times]

const
  text = "A slow answer may have been made in no time and waited in line.\n".repeat(32) # 2 KiB
  httpDate = initTimeFormat("ddd, dd MMM yyyy HH:mm:ss 'GMT'")

var
  madeAt: int64
  date: string

proc now(): string =
  ## The text of the date is kept for the second that it holds.
  let second = getTime().toUnix
  if second != madeAt:
    madeAt = second
    date = fromUnix(second).utc.format(httpDate)
  date

proc answer(request: Request, code: HttpCode, contentType, body: string): Future[void] =
  let headers = newHttpHeaders({
    "Server": "whyslow", "Date": now(), "Content-Type": contentType, "Content-Length": $body.len})
  if request.reqMethod == HttpHead:
    request.respond(code, "", headers)
  else:
    request.respond(code, body, headers)

proc handle(request: Request): Future[void] {.async, gcsafe.} =
  {.cast(gcsafe).}: # the date is shared, but there is only one thread
    case request.url.path
    of "/plaintext": await request.answer(Http200, "text/plain", "Hello, World!")
    of "/welcome": await request.answer(Http200, "application/json", "Welcome!")
    of "/": await request.answer(Http200, "text/plain", text)
    else: await request.answer(Http404, "text/plain", "Not Found")

proc serve(host: string, port: Port, nodelay: bool) {.async.} =
  let server = newAsyncHttpServer()
  server.listen(port, host)
  if nodelay: # Linux hands the option down to the connections
    privateAccess(AsyncHttpServer)
    server.socket.setSockOpt(OptNoDelay, true, level = IPPROTO_TCP.cint)
  while true:
    if server.shouldAcceptRequest():
      await server.acceptRequest(handle)
    else: # no descriptor is free
      await sleepAsync(100)

waitFor serve(paramStr(1), Port(parseInt(paramStr(2))), paramCount() > 2 and paramStr(3) == "nodelay")
